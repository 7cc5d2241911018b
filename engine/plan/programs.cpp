#include "engine/plan/programs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/sha256.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Whether only this user can write into this folder.
bool is_own_folder(const fs::path& folder) {
  struct stat info {};
  return ::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == ::geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// The folder of this user's programs, which need not exist yet. Users may share a folder of runs,
/// but must never run programs that another user put there. Nothing if others took both names.
std::optional<fs::path> shared_programs(const fs::path& runs) {
  for (const std::string& name :
       {std::string(".programs"), ".programs-" + std::to_string(::geteuid())}) {
    const fs::path folder = runs / name;
    std::error_code none;
    if (!fs::exists(fs::symlink_status(folder, none)) || is_own_folder(folder)) return folder;
  }
  return std::nullopt;
}

/// The copy is read-only because many runs share it.
void copy_read_only(const fs::path& from, const fs::path& to) {
  copy_content(from, to);
  const FileDescriptor file(::open(to.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::fchmod(file.get(), 0555) != 0 || ::fsync(file.get()) != 0) {
    throw_errno("cannot write " + to.string(), errno);
  }
}

/// Adds a version and returns its place. Hashes the copy, since the program may change meanwhile.
fs::path add_version(const fs::path& program, const fs::path& shared, const fs::path& name) {
  const fs::path temporary = shared / (".tmp." + std::to_string(::getpid()) + "." + name.string());
  fs::remove(temporary);
  copy_read_only(program, temporary);
  const fs::path folder = shared / sha256_file(temporary);
  make_directories(folder);
  fs::path copy = folder / name;
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
  const auto shared = shared_programs(runs);
  make_directories(place.parent_path());
  if (shared) make_directories(*shared);
  if (!shared || !is_own_folder(*shared)) return copy_content(program, place);
  if (link_to(*shared / sha256_file(program) / place.filename(), place, fs::file_size(program))) {
    return;
  }
  const fs::path copy = add_version(program, *shared, place.filename());
  if (!link_to(copy, place, fs::file_size(copy))) copy_content(program, place);
}

void share_with_libraries(const fs::path& program, const fs::path& runs, const fs::path& folder) {
  share_program(program, runs, folder / "bin" / program.filename());
  const fs::path libraries = program.parent_path().parent_path() / "lib/dlflow";
  std::error_code none;
  for (const auto& library : fs::directory_iterator(libraries, none)) {
    const std::string name = library.path().filename();
    const fs::path place = folder / "lib/dlflow" / name;
    const bool is_for_python = name == "libdlflow_runtime.so";
    if (!is_for_python && !fs::exists(place)) share_program(library.path(), runs, place);
  }
}

void remove_unused_programs(const fs::path& runs) {
  std::error_code none;
  const auto shared = shared_programs(runs);
  if (!shared) return;
  for (const auto& version : fs::directory_iterator(*shared, none)) {
    std::error_code ignored;
    for (const auto& program : fs::directory_iterator(version.path(), ignored)) {
      struct stat info {};
      if (::lstat(program.path().c_str(), &info) != 0 || info.st_nlink > 1) continue;
      fs::remove(program.path(), ignored);
    }
    fs::remove(version.path(), ignored);  // fails unless it is empty
  }
}

std::string program_identity(const std::string& name, const std::string& path, FileHashes& hashes) {
  for (const std::string& folder : split(path, ':')) {
    const fs::path file =
        name.find('/') == std::string::npos ? fs::path(folder) / name : fs::path(name);
    std::error_code none;
    const bool may_run = ::access(file.c_str(), X_OK) == 0;  // like a shell, skip others
    if (!file.is_absolute() || !may_run || !fs::is_regular_file(file, none)) continue;
    return file.string() + " " + hashes.sha256(file);
  }
  return "not found";
}

std::string unknown_program(const std::string& name) {
  return "`setup:` of the profile or the step's `environment:` may decide which program " + name +
         " is, and `reuse: {program: true}` cannot look there; name it by its absolute path";
}

}  // namespace dlflow
