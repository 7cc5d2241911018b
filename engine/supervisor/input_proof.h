#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_identity.h"
#include "base/json.h"
#include "engine/plan/fingerprint.h"
#include "engine/plan/job.h"

/// Whether a job's program saw what its fingerprint says: the frozen copies, the data outside of
/// the run, a `dir:` image and the packages of its `environment:` as they were when the run was
/// planned, its parents' outputs as they were published, from before the program begins until after
/// it has ended.
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

  /// Before the program begins. `spec` must outlive this.
  explicit ImageProof(const JobSpec& spec, Clock clock = std::chrono::steady_clock::now);

  /// What has changed since the run was planned, in words; or nothing. Throws Error.
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
  /// Looks at all of it before the program begins. `spec` must outlive this.
  explicit InputProof(const JobSpec& spec);

  /// What had changed, in words, when this was made; or nothing.
  const std::optional<std::string>& change_at_start() const { return change_; }

  /// What has changed then or since. Reads only what the kernel does not know to be unchanged.
  std::optional<std::string> find_change() const;

  /// What of that a look at the next pass might not show any more, since it was put back: all but
  /// the files of data outside of the run, whose times tell it for good. A pass that is asked to
  /// save has little time, and these may be many.
  std::optional<std::string> find_change_that_may_be_undone() const;

 private:
  std::optional<std::string> find_change_at_start();
  std::optional<std::string> find_change_of_frozen() const;
  std::optional<std::string> find_exchange() const;
  /// Looks at all inputs but the frozen copies and data outside of the run.
  std::optional<std::string> find_change_beside_files() const;

  const JobSpec& spec_;
  ImageProof image_;
  std::map<std::filesystem::path, FileIdentity> frozen_;
  std::map<std::string, std::string> ways_;  // to data outside of the run, at the start
  std::vector<const ParentRef*> published_;  // parents that had left a result at the start
  std::optional<std::string> change_;        // at the start
};

/// Data that a step names by what its parents left, as in `data: "/data/${{ steps.a.metrics.year
/// }}"`: the plan could not look at it, and so it is not in the fingerprint. Returns the first such
/// place, in words: one that neither the plan knew nor an output of a parent holds.
/// \param with  the evaluated `with:` of the job
std::optional<std::string> find_late_place(const JobSpec& spec, const Json& with,
                                           std::span<const ParentResult> parents);

}  // namespace dlflow
