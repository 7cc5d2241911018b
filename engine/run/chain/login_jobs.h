#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/run/chain/chain_run.h"

/// The jobs of a chain whose class is `local: true`: they run on the login node, while `dlflow
/// run`, `run --resume` or `resubmit` waits for them; nothing stays there afterwards (P1).
///
/// Such a job can run before the submission if it waits for no job of the batch system. Otherwise
/// it and its descendants wait until somebody calls `dlflow run --resume` after that job's end:
/// meanwhile no process of dlflow could start it.
///
/// They are handed over as on the local back end, with the same claims, so that each pass runs once
/// (P2), whichever process is killed.
namespace dlflow {

/// Checks that each job of `plan` on the login node can run there. Throws Error{InvalidInput} with
/// the place in the workflow if not.
void check_login_jobs(const Plan& plan, const ChainServices& services);

/// Takes over the jobs of an earlier call: records the ends of those that have ended, and Lost for
/// vanished ones. Starts no job.
void recover_login_jobs(ChainRun& run);

/// Runs the jobs that wait for nothing more, then those that wait for these, until none is left.
/// Returns whether Ctrl-C or `dlflow cancel` ended it before: then running jobs were asked to save
/// and to end, and are Cancelled.
bool run_login_jobs(ChainRun& run);

/// Asks running jobs to save and to end, and waits for them. Returns their number.
size_t end_login_jobs(ChainRun& run);

/// The remaining jobs, which wait for jobs of the batch system.
std::vector<std::string> login_jobs_left(const ChainRun& run);

/// The jobs that ended badly, in this call or before.
std::vector<std::string> login_jobs_failed(const ChainRun& run);

/// Returns for each job the one that must run on the login node first: itself, an ancestor, or none.
/// \param states  by job
std::vector<std::optional<uint32_t>> login_jobs_before(const Plan& plan,
                                                       const std::vector<JobState>& states);

}  // namespace dlflow
