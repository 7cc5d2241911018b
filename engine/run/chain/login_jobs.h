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
/// A job can run there before the submission if it waits for no job of the batch system. One that
/// does waits until somebody calls `dlflow run --resume` after that job's end, and so does what
/// needs it: no process of ours is there meanwhile that could start it.
///
/// They are handed over as on the local back end, with the same claims, so that each pass of them
/// runs once (P2), whoever is killed.
namespace dlflow {

/// Checks that each job of `plan` on the login node can run there. Throws Error{InvalidInput} with
/// the place in the workflow if not.
void check_login_jobs(const Plan& plan, const ChainServices& services);

/// Takes over those that an earlier call handed over: what has run meanwhile is on record, what
/// vanished is Lost. Nothing starts.
void recover_login_jobs(ChainRun& run);

/// Runs those that wait for nothing more, also one after the other, until none is left. Whether
/// Ctrl-C or `dlflow cancel` ended it before: what ran was asked to save and to end, and is
/// Cancelled.
bool run_login_jobs(ChainRun& run);

/// Asks those that run to save and to end, and waits for that. How many.
size_t end_login_jobs(ChainRun& run);

/// Those that are left, since they wait for jobs of the batch system.
std::vector<std::string> login_jobs_left(const ChainRun& run);

/// Those that ended badly, whenever that was.
std::vector<std::string> login_jobs_failed(const ChainRun& run);

/// By job: one on the login node that has not run yet and that the job is, or waits for; nothing if
/// there is none. \param states  by job
std::vector<std::optional<uint32_t>> login_jobs_before(const Plan& plan,
                                                       const std::vector<JobState>& states);

}  // namespace dlflow
