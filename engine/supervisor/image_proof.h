#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "engine/plan/job.h"

/// Whether a `dir:` image, which is used where it lies, is as it was when the run was planned.
/// Others are unpacked by their digest.
///
/// An image is large, and most jobs of a run find it as it was. So it is read only if nothing else
/// proves that: the times of a file system that the run lies in, too, or else a note in the run
/// of how the image looked when a job had read it. No time of one file system is compared with a
/// time of another, which may have another clock.
namespace dlflow {

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

}  // namespace dlflow
