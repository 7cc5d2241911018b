#include "engine/supervisor/image_proof.h"

#include <utility>

#include "base/file.h"
#include "base/sha256.h"
#include "engine/container/image_source.h"
#include "engine/container/tree.h"
#include "engine/plan/data_identity.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The longest tick of a file system's clock, within which two changes look like one.
constexpr std::chrono::seconds kLongestTick(2);

/// Where the image lies, if it is one to look at.
fs::path image_of(const JobSpec& spec) {
  if (!spec.container) return {};
  const ImageSource source = image_source(spec.container->from, "/");
  return source.kind == ImageSource::Kind::Folder ? source.path : fs::path();
}

}  // namespace

ImageProof::ImageProof(const JobSpec& spec, Clock clock)
    : spec_(spec), clock_(std::move(clock)), image_(image_of(spec)) {
  note_ = spec.run_directory / ("image-" + sha256_hex(image_.string()).substr(0, 16));
}

std::optional<std::string> ImageProof::find_change() const {
  if (image_.empty()) return std::nullopt;
  // workflow.yaml is as old as the run.
  if (is_unchanged_since(image_, spec_.run_directory / "workflow.yaml")) return std::nullopt;
  const std::string identity = tree_identity(image_);
  if (read_file_if_exists(note_) == identity) return std::nullopt;
  if (!first_) first_ = {identity, clock_()};
  FreshFileHashes hashes;
  const auto sha256 = [&](const fs::path& file) { return hashes.sha256(file); };
  if (image_digest(image_source(spec_.container->from, "/"), sha256) != spec_.container->digest) {
    return "the image " + image_.string() + " changed after the run was planned";
  }
  note(identity);
  return std::nullopt;
}

/// For the jobs that come later. What was changed a moment before we looked at first might have
/// been changed once more in the same tick, and look the same: it is read after that.
void ImageProof::note(const std::string& identity) const {
  const bool is_settled = clock_() - first_->at >= kLongestTick;
  if (!is_settled || identity != first_->identity || tree_identity(image_) != identity) return;
  write_file_atomic(note_, identity);
}

}  // namespace dlflow
