#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "engine/decide/jobs.h"
#include "engine/plan/plan.h"
#include "engine/store/store.h"

/// The record of a run as whoever goes on with it needs it: after a Ctrl-C, a failure, kill -9.
namespace dlflow {

/// Takes over what jobs reused that was decided while the run went on, and that others ran although
/// they were to reuse something; the plan knows the rest.
void take_reused(Plan& plan, const RunStatus& status);

/// Where each job of `plan` stands by its record: state, attempts and tries.
std::vector<JobProgress> progress_of(const Plan& plan, Store& store, const RunStatus& status);

/// The state of a run whose jobs are in these states and on which no engine works any more.
RunState state_of_run(const Jobs& jobs);

/// Records in the store what a killed dlflow left unrecorded, unless one is at work on the run:
/// that records everything itself, and in the right order. Throws as Store::sync_run.
void sync_idle_run(Store& store, const std::filesystem::path& run_directory);

/// How often a job was tried since someone asked for it, by its events: as attempts, and (in a
/// chain) as passes of one attempt.
int count_tries(std::span<const JobEvent> events);

}  // namespace dlflow
