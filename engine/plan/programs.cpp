#include "engine/plan/programs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/sha256.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

fs::path shared_programs(const fs::path& runs) { return runs / ".programs"; }

/// Nobody writes into what many runs have.
void copy_read_only(const fs::path& from, const fs::path& to) {
  copy_content(from, to);
  const FileDescriptor file(::open(to.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::fchmod(file.get(), 0555) != 0 || ::fsync(file.get()) != 0) {
    throw_errno("cannot write " + to.string(), errno);
  }
}

/// Adds a version; returns where it is. A program that changes meanwhile is what was copied.
fs::path add_version(const fs::path& program, const fs::path& shared, const fs::path& name) {
  make_directories(shared);
  const fs::path temporary = shared / (".tmp." + std::to_string(::getpid()) + "." + name.string());
  fs::remove(temporary);
  copy_read_only(program, temporary);
  const fs::path folder = shared / sha256_file(temporary);
  make_directories(folder);
  const fs::path copy = folder / name;
  fs::rename(temporary, copy);
  sync_directory(folder);
  return copy;
}

bool link_to(const fs::path& copy, const fs::path& place, uintmax_t size) {
  std::error_code none;
  if (fs::file_size(copy, none) != size || none) return false;
  return ::link(copy.c_str(), place.c_str()) == 0;
}

}  // namespace

void share_program(const fs::path& program, const fs::path& runs, const fs::path& place) {
  const fs::path shared = shared_programs(runs);
  make_directories(place.parent_path());
  if (link_to(shared / sha256_file(program) / place.filename(), place, fs::file_size(program))) {
    return;
  }
  const fs::path copy = add_version(program, shared, place.filename());
  if (!link_to(copy, place, fs::file_size(copy))) copy_content(program, place);
}

void remove_unused_programs(const fs::path& runs) {
  std::error_code none;
  for (const auto& version : fs::directory_iterator(shared_programs(runs), none)) {
    std::error_code ignored;
    for (const auto& program : fs::directory_iterator(version.path(), ignored)) {
      struct stat info {};
      if (::lstat(program.path().c_str(), &info) != 0 || info.st_nlink > 1) continue;
      fs::remove(program.path(), ignored);
    }
    fs::remove(version.path(), ignored);  // if it is empty
  }
}

}  // namespace dlflow
