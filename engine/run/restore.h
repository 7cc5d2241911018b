#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/run/engine.h"

/// Going on with a run that another engine left: after a Ctrl-C, a failure, or kill -9.
namespace dlflow {

/// An engine whose jobs are in the states that the run directory shows: what still runs is watched,
/// what was about to start is handed over again, what vanished is Lost. For whoever holds the run's
/// RunLock. Throws what load_run, Store and Backend throw.
///
/// The four cases of docs/architecture.md, "Exactly once on the local back end", are
/// Backend::recover's.
std::unique_ptr<Engine> restored_engine(const std::filesystem::path& run_directory,
                                        const Services& services, const RunOptions& options);

/// Takes over what jobs reused that was decided while the run went on; the plan knows the rest.
void take_reused(Plan& plan, const RunStatus& status);

/// Takes over the state and the attempts of each job.
void take_states(Jobs& jobs, const RunStatus& status);

}  // namespace dlflow
