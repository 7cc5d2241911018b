#pragma once

#include "tests/support/fake_slurm/world.h"

/// Advances a world as time passes and nodes become free.
namespace dlflow::fake_slurm {

/// Accepts late submissions that are due.
void arrive(World& world);

/// Does everything that is due now: late submissions arrive, jobs end, dependencies and begin times
/// are checked, jobs start (first come, first served per partition: jobs behind one that waits for
/// nodes wait, too), and old jobs are purged.
void schedule(World& world);

/// Advances the clock by `seconds`, with each event at its time.
void advance(World& world, Seconds seconds);

/// Updates the reasons why jobs are pending, without starting any, as slurmctld does at once after
/// a submission or an update.
void look_again(World& world);

std::string node_name(const Config& config, int number);  ///< number 0 is alpha-n1

/// The shares of nodes that a task of `request` would get on the cluster, empty or in its current
/// state; none if it does not fit.
std::vector<Share> place(const World& world, const Request& request, bool empty_cluster);

}  // namespace dlflow::fake_slurm
