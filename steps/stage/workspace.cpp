#include "steps/stage/workspace.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/remove_tree.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLease = "lease";
constexpr const char* kNew = "new.";  // prefix of the name until the lease is locked

/// The age at which a workspace is removed if no lock shows whether its owner lives.
constexpr std::chrono::hours kAbandoned{7 * 24};

bool untouched_for_long(const fs::path& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  return !error && fs::file_time_type::clock::now() - time > kAbandoned;
}

bool owner_is_dead(const fs::path& workspace) {
  if (workspace.filename().string().starts_with(kNew)) return untouched_for_long(workspace);
  try {
    const auto lease = FileLock::try_acquire(workspace / kLease, "sweeps");
    return lease && (lease->exclusive() || untouched_for_long(workspace));
  } catch (const Error&) {
    return false;  // its owner is removing it, or it belongs to another user
  }
}

}  // namespace

Workspace::Workspace(const fs::path& cache) {
  // The name is random because processes in different containers may share host name and pid.
  const std::string name = process_name() + "." + std::to_string(std::random_device{}());
  const fs::path unlocked = cache / "work" / (kNew + name);
  path_ = cache / "work" / name;
  make_directories(unlocked);
  lease_ = FileLock::try_acquire(unlocked / kLease, "stages");
  DLFLOW_CHECK(lease_.has_value());
  if (::rename(unlocked.c_str(), path_.c_str()) != 0) {
    throw_errno("cannot write " + path_.string(), errno);
  }
}

Workspace::~Workspace() {
  std::error_code ignored;
  remove_tree(path_, ignored);
}

fs::path Workspace::new_file() { return path_ / std::to_string(num_files_++); }

void Workspace::sweep(const fs::path& cache) {
  std::vector<fs::path> dead;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(cache / "work", error)) {
    if (owner_is_dead(entry.path())) dead.push_back(entry.path());
  }
  for (const fs::path& workspace : dead) remove_tree(workspace, error);
}

}  // namespace dlflow::steps
