#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file_identity.h"
#include "base/json.h"
#include "engine/plan/fingerprint.h"
#include "engine/plan/job.h"

/// Whether a job's program saw the inputs of its fingerprint: frozen copies, data outside of the
/// run, a `dir:` image and the packages of its `environment:` as they were when the run was
/// planned, and its parents' outputs as published, from before the program begins until after it
/// has ended.
namespace dlflow {

/// Whether a `dir:` image, which is used where it lies, is as it was when the run was planned.
/// Others are unpacked by their digest.
///
/// An image is large, and most jobs of a run find it as it was. So it is read only if nothing else
/// proves that: the times of a file system that the run lies in, too, or else a note in the run
/// of how the image looked when a job had read it. No time of one file system is compared with a
/// time of another, which may have another clock.
class ImageProof {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  /// The state before the program begins. `spec` must outlive this.
  explicit ImageProof(const JobSpec& spec, Clock clock = std::chrono::steady_clock::now);

  /// Changes since the run was planned, in words; or nothing. Throws Error.
  std::optional<std::string> find_change() const;

 private:
  struct Look {
    std::string identity;  ///< see tree_identity()
    std::chrono::steady_clock::time_point at;
  };
  void note(const std::string& identity) const;

  const JobSpec& spec_;
  Clock clock_;
  std::filesystem::path image_;        // empty: there is none to look at
  std::filesystem::path note_;         // in the run
  mutable std::optional<Look> first_;  // before it was read
};

class InputProof {
 public:
  /// Checks all inputs before the program begins. `spec` must outlive this.
  explicit InputProof(const JobSpec& spec);

  /// Changes, in words, that existed when this was made; or nothing.
  const std::optional<std::string>& change_at_start() const { return change_; }

  /// Changes then or since. Reads only files that the kernel does not report as unchanged.
  std::optional<std::string> find_change() const;

  /// Changes that a check at the next pass might miss, since they may be undone by then. All inputs
  /// except files of data outside of the run, whose times show a change permanently. A pass that is
  /// asked to save has little time, and these may be many.
  std::optional<std::string> find_change_that_may_be_undone() const;

 private:
  std::optional<std::string> find_change_at_start();
  std::optional<std::string> find_change_of_frozen() const;
  std::optional<std::string> find_exchange() const;
  /// Checks all inputs except frozen copies and data outside of the run.
  std::optional<std::string> find_change_beside_files() const;

  const JobSpec& spec_;
  ImageProof image_;
  std::map<std::filesystem::path, FileIdentity> frozen_;
  std::map<std::string, std::string> ways_;  // to data outside of the run, at the start
  /// Parents that had left a result at the start, and whether it has no files.
  std::vector<std::pair<const ParentRef*, bool>> published_;
  std::optional<std::string> change_;  // at the start
};

/// Data that a step names by a result of its parents, as in `data: "/data/${{ steps.a.metrics.year
/// }}"`: the plan could not check it, so it is not in the fingerprint. Returns the first such
/// place, in words: one that neither the plan nor an output of a parent contains.
/// \param with  the evaluated `with:` of the job
std::optional<std::string> find_late_place(const JobSpec& spec, const Json& with,
                                           std::span<const ParentResult> parents);

}  // namespace dlflow
