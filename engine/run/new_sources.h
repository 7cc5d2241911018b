#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/run/again.h"
#include "engine/store/store.h"

/// Sources that have changed since the run was created.
namespace dlflow {

/// The names of sources that changed, are new or are gone: copied files, and data that is read in
/// place. Also empty if the folder of the workflow does not exist (another machine).
std::vector<std::string> changed_sources(const Plan& plan, FileHashes& hashes);

/// The successful jobs that take_new_sources() would plan again.
std::vector<uint32_t> made_anew(const Plan& plan, const Jobs& jobs, FileHashes& hashes);

/// The name of a run other than `run` that uses the result in `job_directory`; empty: none.
/// \param reuses  see reuses_of_runs()
std::string other_user_of(std::span<const Reuse> reuses, const std::string& run,
                          const std::filesystem::path& job_directory);

/// The services that take_new_sources() needs.
struct NewSourcesServices {
  FileHashes& hashes;

  /// Whether the job runs, or waits in a batch system.
  std::function<bool(uint32_t job)> is_out;

  /// Another run that uses the result of the job in this folder; empty: none.
  std::function<std::string(const std::filesystem::path& job_directory)> user_of;
};

/// The run takes its sources as they are now. Jobs whose fingerprint changes, and their
/// descendants, are planned again from the beginning: their results are withdrawn, and their
/// checkpoints, made with the old sources, are set aside. Everything else stays.
///
/// After a kill in between no job has a result of other sources than plan.json names, and the same
/// call again does the rest: results are withdrawn first, then the jobs are planned again
/// (`plan_job` and `sync` put that on disk), then plan.json changes in one step.
///
/// Throws Error{InvalidInput}, and changes nothing, if a job that would change runs or is queued,
/// or if its result is used by another run.
void take_new_sources(Plan& plan, const Jobs& jobs, const NewSourcesServices& services,
                      const PlanJob& plan_job, const std::function<void()>& sync);

}  // namespace dlflow
