#pragma once

#include <filesystem>

#include "base/handle.h"

/// A file on its way into a folder of this machine, until it has its name.
namespace dlflow::steps {

/// A file beside `target` that this sender alone writes to. What an interrupted sender left is
/// continued; but others may write to the folder, and another job may send the same file now. So no
/// link is followed, and where something of another user or a sender at work (it has a flock) is in
/// the way, the file has a name of its own, and is gone with this object unless it was renamed.
class PartFile {
 public:
  /// Throws Error.
  explicit PartFile(const std::filesystem::path& target);
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  ~PartFile();

  const std::filesystem::path& path() const { return path_; }
  const FileDescriptor& file() const { return file_; }

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  bool has_own_name_ = false;
};

}  // namespace dlflow::steps
