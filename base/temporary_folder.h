#pragma once

#include <filesystem>

namespace dlflow {

/// A new folder that only this user can enter. The destructor removes it with its content.
class TemporaryFolder {
 public:
  /// Its path is `beginning`, a dot and six further characters. Throws Error.
  explicit TemporaryFolder(const std::filesystem::path& beginning);
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace dlflow
