#pragma once

#include "tests/support/fake_slurm/world.h"

/// How time and free nodes move a world on.
namespace dlflow::fake_slurm {

/// Takes late submissions whose time has come.
void arrive(World& world);

/// Does what is due at the present time: late submissions arrive, jobs end, dependencies and begin
/// times are looked at, what may start starts (first come, first served per partition: what is
/// behind a job that waits for nodes waits too), what is old enough is purged.
void schedule(World& world);

/// Moves the clock on by `seconds`, doing each thing at its time.
void advance(World& world, Seconds seconds);

/// Brings the reasons of pending jobs up to date and starts nothing: what slurmctld does at once
/// after a submission or an update.
void look_again(World& world);

std::string node_name(const Config& config, int number);  ///< of the first, 0: alpha-n1

/// The shares of nodes that a task of `request` would get of a cluster that is empty or as it is
/// now; empty if it does not fit.
std::vector<Share> place(const World& world, const Request& request, bool empty_cluster);

}  // namespace dlflow::fake_slurm
