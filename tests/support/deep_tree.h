#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"

/// Folder trees that are deeper than a process's limit of descriptors.
namespace dlflow::test {

/// Makes `root` and nested folders below it, each with a file beside it.
inline void make_deep(const std::filesystem::path& root, int levels) {
  make_directories(root);
  FileDescriptor at(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < levels; ++i) {
    DLFLOW_CHECK(::mkdirat(at.get(), "d", 0700) == 0);
    const FileDescriptor file(::openat(at.get(), "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0400));
    DLFLOW_CHECK(file);
    at = FileDescriptor(::openat(at.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DLFLOW_CHECK(at);
  }
}

}  // namespace dlflow::test
