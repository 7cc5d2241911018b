#include "engine/cli/removal.h"

#include <sys/stat.h>

#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/fault.h"
#include "base/remove_tree.h"
#include "engine/plan/programs.h"
#include "engine/plan/published.h"
#include "engine/plan/run_directory.h"
#include "engine/run/reuses.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".removed";

bool is_below(const fs::path& path, const fs::path& folder) {
  return path.string().starts_with(folder.string() + "/");
}

/// The jobs of the run in `directory` whose results the links in the result of `job` lead to.
std::vector<fs::path> linked_jobs(const fs::path& job, const fs::path& directory) {
  const fs::path steps = fs::weakly_canonical(directory / "steps");
  std::vector<fs::path> jobs;
  for (const fs::path& place : linked_places(job)) {
    fs::path linked;
    for (fs::path above = place.parent_path(); is_below(above, steps);
         above = above.parent_path()) {
      if (!attempts(above).empty()) linked = above;
    }
    if (!linked.empty()) jobs.push_back(directory / "steps" / linked.lexically_relative(steps));
  }
  return jobs;
}

/// Which job folders of the run in `directory` runs use that stay, and which their links lead to.
std::map<fs::path, std::set<std::string>> used_results(const std::vector<Reuse>& reuses,
                                                       const fs::path& directory,
                                                       const std::set<std::string>& going) {
  std::map<fs::path, std::set<std::string>> used;
  std::error_code none;
  for (const Reuse& reuse : reuses) {
    if (going.contains(reuse.run) || !is_below(reuse.from, directory)) continue;
    if (fs::exists(reuse.run_directory, none)) used[reuse.from].insert(reuse.run);
  }
  for (const auto& [job, users] : std::map(used)) {
    for (const fs::path& linked : linked_jobs(job, directory)) {
      used[linked].insert(users.begin(), users.end());
    }
  }
  return used;
}

/// The folders right above what is used, up to steps/: what else is in them goes.
std::set<fs::path> opened_folders(const Removal& removal) {
  std::set<fs::path> opened = {removal.directory / "steps"};
  for (const auto& [folder, runs] : removal.used) {
    for (fs::path above = folder.parent_path(); is_below(above, removal.directory / "steps");
         above = above.parent_path()) {
      opened.insert(above);
    }
  }
  return opened;
}

/// What goes, none of it inside another.
std::vector<fs::path> going_paths(const Removal& removal) {
  if (removal.used.empty()) return {removal.directory};
  const std::set<fs::path> opened = opened_folders(removal);
  std::vector<fs::path> going;
  for (const fs::path& folder : opened) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) {
      if (opened.contains(entry.path()) || removal.used.contains(entry.path())) continue;
      going.push_back(entry.path());
    }
  }
  return going;
}

/// Bytes on disk, by file; a file goes with its last name.
class DiskUse {
 public:
  void add(const fs::path& path) {
    add_entry(path);
    std::error_code ignored;
    constexpr auto kReadable = fs::directory_options::skip_permission_denied;
    if (!fs::is_directory(fs::symlink_status(path, ignored))) return;
    // A folder deeper than there are descriptors is counted up to there; it is removed all the
    // same.
    fs::recursive_directory_iterator at(path, kReadable, ignored);
    for (; at != fs::recursive_directory_iterator(); at.increment(ignored)) add_entry(at->path());
  }

  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const auto& [inode, file] : files_) sum += file.names == 0 ? file.bytes : 0;
    return sum;
  }

 private:
  struct File {
    uint64_t bytes = 0;
    uint64_t names = 0;  ///< that were not seen
  };

  void add_entry(const fs::path& path) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) return;
    const uint64_t names = S_ISDIR(info.st_mode) ? 1 : info.st_nlink;
    const auto [file, is_new] =
        files_.try_emplace({info.st_dev, info.st_ino}, File{uint64_t(info.st_blocks) * 512, names});
    --file->second.names;
  }

  std::map<std::pair<dev_t, ino_t>, File> files_;
};

void measure(Removal& removal) {
  DiskUse going;
  for (const fs::path& path : going_paths(removal)) going.add(path);
  removal.freed_bytes = going.bytes();
  DiskUse kept;
  for (const auto& [folder, runs] : removal.used) kept.add(folder);
  removal.kept_bytes = kept.bytes();
}

/// Out of sight in one step, so that a kill leaves no half of a run.
void remove_folder(const fs::path& folder) {
  const fs::path gone =
      folder.parent_path() / ("." + folder.filename().string() + std::string(kEnding));
  remove_tree(gone);
  std::error_code error;
  fs::rename(folder, gone, error);
  if (error) {
    throw Error(Errc::InvalidInput, "cannot remove " + folder.string() + ": " + error.message());
  }
  crash_point("renamed");
  remove_tree(gone);
}

void remove_leftovers(const fs::path& runs) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(runs, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".") && name.ends_with(kEnding)) remove_tree(entry.path());
  }
  remove_unused_programs(runs);
}

}  // namespace

void check_idle(Session& session, const std::string& run, const std::string& gone) {
  const fs::path directory = session.store().directory(run);
  const std::string advice = "; `dlflow cancel " + run + "` ends it first";
  if (fs::exists(directory) && !RunLock::try_acquire(directory)) {
    throw Error(Errc::InvalidInput, run + " is at work" + advice);
  }
  if (!gone.empty() && cluster_of(directory) == gone) return;
  const RunStatus status = refresh_run(session, run);
  if (status.state == RunState::Running) {
    throw Error(Errc::InvalidInput, run + " has jobs at work" + advice);
  }
  if (!fs::exists(directory) || status.damaged) return;
  session.verbs(run_profile(directory).scheduler)->check_idle(directory);
}

std::vector<Removal> plan_removals(Session& session, const std::vector<std::string>& runs) {
  std::set<std::string> going(runs.begin(), runs.end());
  const std::vector<Reuse> reuses = reuses_of_runs(session.store());
  std::vector<Removal> removals;
  for (const std::string& run : going) {
    removals.push_back({.run = run, .directory = session.store().directory(run), .used = {}});
  }
  // Of a run that stays in part what it has reused stays, too: its results may have links to that.
  for (bool is_stable = false; !is_stable;) {
    is_stable = true;
    for (Removal& removal : removals) {
      removal.used = used_results(reuses, removal.directory, going);
      if (!removal.used.empty() && going.erase(removal.run) > 0) is_stable = false;
    }
  }
  for (Removal& removal : removals) measure(removal);
  return removals;
}

void remove_run(Session& session, const Removal& removal) {
  std::optional<RunLock> lock;
  if (fs::exists(removal.directory)) lock.emplace(removal.directory);
  if (!removal.used.empty()) {
    for (const fs::path& path : going_paths(removal)) remove_tree(path);
    return;
  }
  if (fs::exists(removal.directory)) {
    session.store().keep_effects(removal.run);
    remove_folder(removal.directory);
  }
  session.store().forget(removal.run);
  remove_leftovers(removal.directory.parent_path());
}

}  // namespace dlflow
