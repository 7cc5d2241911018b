#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace dlflow::test {

/// A new folder that is removed when the test ends.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "dlflow-test.XXXXXX").string();
    DLFLOW_CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

  /// Writes a file, with its parent folders, and returns its path.
  std::filesystem::path write(const std::string& name, const std::string& content) const {
    const std::filesystem::path file = path_ / name;
    make_directories(file.parent_path());
    write_file_atomic(file, content);
    return file;
  }

  /// The same for a program that its owner may run.
  std::filesystem::path write_program(const std::string& name, const std::string& content) const {
    std::filesystem::path file = write(name, content);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace dlflow::test
