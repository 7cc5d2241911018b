#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "engine/decide/jobs.h"
#include "engine/plan/plan.h"
#include "engine/store/store.h"

/// The record of a run for a process that continues it: after a Ctrl-C, a failure or kill -9.
namespace dlflow {

/// Adds reuses that were decided during the run, and removes those whose jobs ran instead; the plan
/// has the rest.
void take_reused(Plan& plan, const RunStatus& status);

/// The progress of each job of `plan` on record: state, attempts and tries.
std::vector<JobProgress> progress_of(const Plan& plan, Store& store, const RunStatus& status);

/// The state of a run whose jobs are in these states and on which no engine works any more.
RunState state_of_run(const Jobs& jobs);

/// Records in the store the events that a killed dlflow did not, unless another one works on the
/// run: that records everything itself, and in the right order. Throws like Store::sync_run.
void sync_idle_run(Store& store, const std::filesystem::path& run_directory);

/// The number of tries since someone asked for the job, by its events: attempts, and (in a chain)
/// passes of one attempt.
int count_tries(std::span<const JobEvent> events);

}  // namespace dlflow
