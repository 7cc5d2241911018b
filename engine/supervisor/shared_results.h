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
/// here does anything. What is put there gets the folder's group, may be read like the folder, and
/// written by nobody. It is a copy, as is what a job takes (one that shares its blocks, where the
/// file system can): two users never have the same file. Others may write there, too: no link is
/// followed. Kinds of steps say whether their results are shared (StepKind::reuse).
namespace dlflow {

struct SharedResult {
  std::string run;                ///< where it was computed
  Json outputs = Json::object();  ///< JobEvent::outputs, of the job that takes them
  Json metrics = Json::object();
};

/// The treatment of a result with the same fingerprint that exists already.
enum class Existing {
  Stays,
  IsDamaged,  ///< it is replaced, or, if it is another user's, the new one is put beside it
};

/// Adds the result of a job: `end` is its succeeded event, and its outputs are published. A failure
/// (full disk, a folder of someone else) is no failure of the job: false is returned.
bool share_result(const JobSpec& spec, const JobEvent& end, Existing existing = Existing::Stays);

struct TakenResult {
  std::optional<SharedResult> result;
  bool was_damaged = false;  ///< a result exists, but cannot be used
};

/// Copies the result with this fingerprint to the place where the job's program would have left it,
/// after a check that it is the shared one. Nothing if there is none, it may not be read, or it is
/// damaged; then the job's folders are as before.
TakenResult take_shared_result(const JobSpec& spec, const AttemptFiles& files,
                               const Fingerprint& fingerprint);

/// A result in the cache, for the maintenance of the cache.
struct StoredResult {
  std::filesystem::path folder;
  std::string fingerprint;
  std::string run, job;  ///< where it was computed
  uint64_t bytes = 0;
  std::filesystem::file_time_type last_used;  ///< or shared
};

/// All that are complete and may be read, the longest unused first.
std::vector<StoredResult> list_shared_results(const std::filesystem::path& cache);

/// A job that needs it meanwhile computes for itself. False if it may not be removed, as another
/// user's.
bool remove_shared_result(const StoredResult& result);

}  // namespace dlflow
