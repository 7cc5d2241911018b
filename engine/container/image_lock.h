#pragma once

#include <filesystem>
#include <map>
#include <string>

/// The lock file beside a workflow: what its images were when somebody looked.
namespace dlflow {

struct LockedImage {
  std::string from;
  std::string digest;
  bool operator==(const LockedImage&) const = default;
};

using ImageLock = std::map<std::string, LockedImage>;  ///< by the names of the images

/// "flows/train.yaml" -> "flows/train.lock.json"
std::filesystem::path image_lock_file(const std::filesystem::path& workflow);

/// Empty if there is no such file. Throws Error{Corrupt} if it is no lock file.
ImageLock read_image_lock(const std::filesystem::path& file);
/// What write_image_lock writes.
std::string to_text(const ImageLock& lock);
void write_image_lock(const std::filesystem::path& file, const ImageLock& lock);

}  // namespace dlflow
