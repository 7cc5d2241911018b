#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/run/again.h"
#include "engine/store/store.h"

/// The sources of a run that have changed since it was made.
namespace dlflow {

/// The names of what has another content now, is new or is gone: copied files and data that is read
/// where it lies. Empty also if the folder of the workflow is not there (another machine).
std::vector<std::string> changed_sources(const Plan& plan, FileHashes& hashes);

/// The jobs that take_new_sources() would plan again although they ended well.
std::vector<uint32_t> made_anew(const Plan& plan, const Jobs& jobs, FileHashes& hashes);

/// Another run than `run` that uses the result in `job_directory`; empty: none.
/// \param reuses  see reuses_of_runs()
std::string other_user_of(std::span<const Reuse> reuses, const std::string& run,
                          const std::filesystem::path& job_directory);

/// The services that take_new_sources() needs.
struct NewSourcesServices {
  FileHashes& hashes;

  /// Whether somebody has the job: it runs, or it waits in a batch system.
  std::function<bool(uint32_t job)> is_out;

  /// Another run that uses the result of the job in this folder; empty: none.
  std::function<std::string(const std::filesystem::path& job_directory)> user_of;
};

/// The run takes its sources as they are now. Jobs whose fingerprint changes by that, and all that
/// need them, are planned again from the beginning: what they left is no longer theirs to give, and
/// their checkpoints, which the old sources have made, are set aside. Everything else stays.
///
/// After a kill in between no job has a result of other sources than plan.json names, and the same
/// call again does what is left: results are withdrawn first, then the jobs are planned again
/// (`plan_job` and `sync` put that on disk), then plan.json changes in one step.
///
/// Throws Error{InvalidInput}, and changes nothing, if a job that would change is out, or if its
/// result is used by another run.
void take_new_sources(Plan& plan, const Jobs& jobs, const NewSourcesServices& services,
                      const PlanJob& plan_job, const std::function<void()>& sync);

}  // namespace dlflow
