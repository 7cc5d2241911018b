#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/plan/job.h"
#include "engine/supervisor/launch.h"

/// Results that all users of a cache share, so that what one has computed no other computes again.
///
///   CACHE/results/aa/FINGERPRINT/outputs, checkpoints   as in the folder of the job that left them
///   CACHE/results/aa/FINGERPRINT/result.json            its run, metrics, and outputs with hashes
///
/// A cache is shared if its folder's group, or everyone, may write to it; without that, nothing
/// here does anything. What is put there gets the folder's group and permissions, and is linked,
/// not copied, where the file system can. Others may write there, too: no link is followed. Staged
/// files are left out: the cache has them already.
namespace dlflow {

struct SharedResult {
  std::string run;                ///< where it was computed
  Json outputs = Json::object();  ///< JobEvent::outputs, of the job that takes them
  Json metrics = Json::object();
};

/// Adds what a job left: `end` is its succeeded event, and its outputs are published. A result that
/// is there already stays. A failure (full disk, a folder of someone else) is no failure of the
/// job: false is returned.
bool share_result(const JobSpec& spec, const JobEvent& end);

/// Puts the result with this fingerprint where the job's program would have left it, after checking
/// that it is what was shared. Nothing if there is none, it may not be read, or it is damaged; then
/// the job's folders are as before.
std::optional<SharedResult> take_shared_result(const JobSpec& spec, const AttemptFiles& files,
                                               const std::string& fingerprint);

/// A result in the cache, as who looks after the cache sees it.
struct StoredResult {
  std::filesystem::path folder;
  std::string fingerprint;
  std::string run, job;  ///< where it was computed
  uint64_t bytes = 0;
  std::filesystem::file_time_type last_used;  ///< or shared
};

/// All that are complete and may be read, the longest unused first.
std::vector<StoredResult> list_shared_results(const std::filesystem::path& cache);

/// A job that takes it meanwhile computes for itself. False if it may not be removed: it is another
/// user's.
bool remove_shared_result(const StoredResult& result);

}  // namespace dlflow
