#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/fault.h"
#include "base/remove_tree.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/cli/commands.h"
#include "engine/cli/session.h"
#include "engine/cli/usage.h"
#include "engine/plan/programs.h"
#include "engine/plan/published.h"
#include "engine/plan/run_directory.h"
#include "engine/run/reuses.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The parts of a run to remove: its whole folder, or, if other runs use some of its results, the
/// unused ones. Such a run stays in the store, so that its results are still found and reused.
struct Removal {
  std::string run;
  std::filesystem::path directory;
  std::map<std::filesystem::path, std::set<std::string>> used;  ///< folders of jobs -> their users
  uint64_t freed_bytes = 0;
  uint64_t kept_bytes = 0;
};

constexpr std::string_view kEnding = ".removed";

bool is_below(const fs::path& path, const fs::path& folder) {
  return path.string().starts_with(folder.string() + "/");
}

/// The jobs of the run in `directory` to which the result of `job` has links.
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

/// The job folders of the run in `directory` that remaining runs use, directly or through links.
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

/// The folders above used results, up to steps/; their other entries are removed.
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

/// The paths to remove, none inside another.
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

/// Disk usage in bytes. A file counts only if all its hard links are included.
class DiskUse {
 public:
  void add(const fs::path& path) {
    add_entry(path);
    std::error_code ignored;
    constexpr auto kReadable = fs::directory_options::skip_permission_denied;
    if (!fs::is_directory(fs::symlink_status(path, ignored))) return;
    // A folder deeper than the limit of descriptors is counted only in part, but removed
    // completely.
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
    uint64_t names = 0;  ///< hard links not seen yet
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

/// Renames the folder first, so that a kill leaves no partial run.
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

/// Throws Error{InvalidInput} with what to type if an engine works on the run, if jobs of it are
/// queued, or if that cannot be determined now.
/// \param gone  a cluster that is gone for good, so that nothing can run there. Empty: none
void check_idle(Session& session, const std::string& run, const std::string& gone) {
  const fs::path directory = session.store().directory(run);
  const std::string advice = "; end it first: dlflow cancel " + run;
  if (fs::exists(directory) && !RunLock::try_acquire(directory)) {
    throw Error(Errc::InvalidInput, run + " is at work" + advice);
  }
  if (!gone.empty() && cluster_of(directory) == gone) return;
  const RunStatus status = refresh_run(session, run);
  if (status.state == RunState::Running) {
    throw Error(Errc::InvalidInput, run + " has active jobs" + advice);
  }
  if (!fs::exists(directory) || status.damaged) return;
  session.verbs(run_profile(directory).scheduler)->check_idle(directory);
}

/// Plans the removal of several runs. Results that they use of each other are removed too, unless
/// part of the using run stays, since it may link to them. Sizes are bytes actually freed: files
/// with other hard links (a program that runs share) do not count.
std::vector<Removal> plan_removals(Session& session, const std::vector<std::string>& runs) {
  std::set<std::string> going(runs.begin(), runs.end());
  const std::vector<Reuse> reuses = reuses_of_runs(session.store());
  std::vector<Removal> removals;
  for (const std::string& run : going) {
    removals.push_back({.run = run, .directory = session.store().directory(run), .used = {}});
  }
  // A run that stays in part keeps the results it reused, since its own may link to them.
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

/// Removes the run. After a kill it is either complete or gone; the next removal in the same folder
/// deletes leftovers.
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

/// "data, train[lr=0.1] (310.0 MiB)"
std::string used_in_words(const Removal& removal) {
  constexpr size_t kShown = 3;
  std::vector<std::string> jobs;
  std::set<std::string> users;
  for (const auto& [folder, runs] : removal.used) {
    if (jobs.size() < kShown) {
      jobs.push_back(folder.lexically_relative(removal.directory / "steps").string());
    }
    users.insert(runs.begin(), runs.end());
  }
  if (removal.used.size() > kShown) jobs.push_back("…");
  std::string by = *users.begin();
  if (users.size() > 1) by += " and " + std::to_string(users.size() - 1) + " more";
  return join(jobs, ", ") + " (" + format_size(removal.kept_bytes) +
         (jobs.size() == 1 ? ") stays, used by " : ") stay, used by ") + by;
}

void show(const Removal& removal, size_t width, bool dry_run) {
  const std::string size = format_size(removal.freed_bytes);
  const char* verb = dry_run ? "would be removed" : "removed";
  const std::string what =
      removal.used.empty() ? size + " " + verb : size + " " + verb + "; " + used_in_words(removal);
  std::printf("%-*s  %s\n", int(width), removal.run.c_str(), what.c_str());
}

void remove_all(Session& session, const std::vector<std::string>& runs, bool dry_run) {
  const std::vector<Removal> removals = plan_removals(session, runs);
  size_t width = 0;
  uint64_t freed = 0;
  Json list = Json::array();
  for (const Removal& removal : removals) width = std::max(width, removal.run.size());
  for (const Removal& removal : removals) {
    if (!dry_run) remove_run(session, removal);
    freed += removal.freed_bytes;
    if (session.json) {
      list.push_back({{"run", removal.run},
                      {"directory", removal.directory.string()},
                      {"freed_bytes", removal.freed_bytes},
                      {"kept_bytes", removal.kept_bytes}});
    } else if (!session.quiet) {
      show(removal, width, dry_run);
    }
  }
  if (session.json) {
    return print_json({{"removed", std::move(list)}, {"freed_bytes", freed}, {"dry_run", dry_run}});
  }
  if (session.quiet) return;
  std::printf("%s%s\n", format_size(freed).c_str(),
              dry_run ? " in all; nothing was removed." : " freed.");
}

/// The candidates of --keep and --older-than: all but the newest `keep` runs of each workflow that
/// ended (or, if interrupted, began) at least `age` ago.
std::vector<std::string> candidates(const std::vector<RunSummary>& newest_first, size_t keep,
                                    std::chrono::seconds age, Time now) {
  std::map<std::string, size_t> seen;
  std::vector<std::string> runs;
  for (const RunSummary& run : newest_first) {
    if (++seen[run.workflow] <= keep || run.state == RunState::Running) continue;
    if (now - run.ended.value_or(run.started) >= age) runs.push_back(run.run);
  }
  return runs;
}

struct RmArguments {
  std::vector<std::string> words;
  size_t keep = 0;
  std::string older_than = "0s";
  std::string gone;
  bool dry_run = false;
};

void remove_named(Session& session, const RmArguments& arguments) {
  std::vector<std::string> runs;
  for (const std::string& word : arguments.words) runs.push_back(session.store().resolve(word));
  for (const std::string& run : runs) check_idle(session, run, arguments.gone);
  remove_all(session, runs, arguments.dry_run);
}

void remove_old(Session& session, const RmArguments& arguments) {
  const std::chrono::seconds age = parse_duration(arguments.older_than);
  std::vector<std::string> idle;
  for (const std::string& run :
       candidates(session.store().runs(), arguments.keep, age, SystemClock().now())) {
    try {
      check_idle(session, run, arguments.gone);
      idle.push_back(run);
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());  // the run stays
    }
  }
  remove_all(session, idle, arguments.dry_run);
}

}  // namespace

void add_rm(CLI::App& app, Session& session) {
  CLI::App* command = add_command(
      app, "rm", "Remove runs with their folders; results that other runs use stay.", R"(
  dlflow rm fashion-mnist-7f3a91c0
  dlflow rm --keep 5                       (the newest of each workflow)
  dlflow rm --keep 5 --older-than 30d --dry-run)");
  const auto arguments = std::make_shared<RmArguments>();
  CLI::Option* const named = add_value(*command, "run", "RUN", arguments->words,
                                       "names of runs, or beginnings of their names or numbers");
  const auto* keep = add_value(*command, "--keep", "N", arguments->keep,
                               "number of newest runs of each workflow to keep")
                         ->check(CLI::NonNegativeNumber)
                         ->excludes(named);
  const auto* older = add_value(*command, "--older-than", "TIME", arguments->older_than,
                                "only runs that ended longer ago than this")
                          ->excludes(named);
  command->add_flag("-n,--dry-run", arguments->dry_run,
                    "show what would be removed; remove nothing");
  add_value(*command, "--gone", "CLUSTER", arguments->gone,
            "do not ask this cluster about the runs' jobs; it is gone for good");
  add_json_option(*command, session);
  command->callback([=, &session] {
    if (!arguments->words.empty()) return remove_named(session, *arguments);
    if (keep->count() + older->count() == 0) {
      throw UsageError("name runs, or select those to keep: --keep 5, --older-than 30d, or both");
    }
    remove_old(session, *arguments);
  });
}

}  // namespace dlflow
