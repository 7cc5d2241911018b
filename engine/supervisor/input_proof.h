#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "base/file_identity.h"
#include "engine/plan/job.h"
#include "engine/supervisor/image_proof.h"

/// Whether a job's program saw what its fingerprint says: the frozen copies, the data outside of
/// the run, a `dir:` image and the packages of its `environment:` as they were when the run was
/// planned, its parents' outputs as they were published, from before the program begins until after
/// it has ended.
namespace dlflow {

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

  const JobSpec& spec_;
  ImageProof image_;
  std::map<std::filesystem::path, FileIdentity> frozen_;
  std::map<std::string, std::string> ways_;  // to data outside of the run, at the start
  std::optional<std::string> change_;        // at the start
};

}  // namespace dlflow
