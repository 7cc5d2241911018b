#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/run/engine.h"

/// Going on with a run that another engine left: after a Ctrl-C, a failure, or kill -9.
namespace dlflow {

/// An engine whose jobs are in the states that the run directory shows: what still runs is watched,
/// what was about to start is handed over again, what vanished is Lost. For whoever holds the run's
/// RunLock. Throws what load_run, Store and Backend throw.
///
/// The four cases of docs/contributor/architecture.md, "Exactly once on the local back end", are
/// Backend::recover's.
std::unique_ptr<Engine> restored_engine(const std::filesystem::path& run_directory,
                                        const Services& services, const RunOptions& options);

/// Takes over what jobs reused that was decided while the run went on, and that others ran although
/// they were to reuse something; the plan knows the rest.
void take_reused(Plan& plan, const RunStatus& status);

/// Takes over the state, the attempts and the tries of each job.
void take_states(const Plan& plan, Jobs& jobs, Store& store, const RunStatus& status);

/// How often a job was tried since someone asked for it, by its events: as attempts, and (SLURM) as
/// passes of one attempt.
int count_tries(std::span<const JobEvent> events);

}  // namespace dlflow
