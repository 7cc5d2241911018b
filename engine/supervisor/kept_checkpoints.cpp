#include "engine/supervisor/kept_checkpoints.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/local_files.h"
#include "base/process_tree.h"
#include "base/remove_tree.h"
#include "engine/model/step_kinds.h"
#include "engine/supervisor/launch.h"
#include "engine/supervisor/saved_state.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostCopied = uint64_t{8} << 30;

fs::path kept_folder(const fs::path& job_directory) { return job_directory / "checkpoints.kept"; }

/// A state that was kept: NUMBER-CONTENT.
struct Kept {
  int number = 0;
  fs::path folder;
};

std::vector<Kept> kept_states(const fs::path& job_directory) {
  std::vector<Kept> states;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(kept_folder(job_directory), none)) {
    const int number = std::atoi(entry.path().filename().c_str());
    if (number > 0) states.push_back({number, entry.path()});
  }
  std::ranges::sort(states, {}, &Kept::number);
  return states;
}

/// Keeps its time of change, so that it does not look new.
void copy_with_time(const fs::path& from, const fs::path& to) {
  make_directories(to.parent_path());
  copy_content(from, to);
  struct stat info {};
  if (::stat(from.c_str(), &info) != 0) return;
  const timespec times[] = {info.st_atim, info.st_mtim};
  ::utimensat(AT_FDCWD, to.c_str(), times, 0);
}

/// Copies the tree, its newest files first, and links the files beyond the limit.
void copy_state(const fs::path& from, const fs::path& to) {
  struct File {
    fs::path name;
    fs::file_time_type changed;
    uint64_t size = 0;
  };
  std::vector<File> files;
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    if (!entry.is_regular_file()) continue;
    files.push_back(
        {entry.path().lexically_relative(from), entry.last_write_time(), entry.file_size()});
  }
  std::ranges::sort(files, std::greater(), &File::changed);
  make_directories(to);
  uint64_t copied = 0;
  for (const File& file : files) {
    copied += file.size;
    std::error_code problem;
    if (copied > kMostCopied) {
      make_directories((to / file.name).parent_path());
      fs::create_hard_link(from / file.name, to / file.name, problem);
    } else {
      copy_with_time(from / file.name, to / file.name);
    }
  }
}

bool is_own_format(const fs::path& folder) {
  const fs::recursive_directory_iterator entries(folder);
  return std::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return entry.path().filename() == "manifest.json";
  });
}

/// Whether the descriptor `number` of a process may write; fdinfo has the flags in octal.
bool is_for_writing(const fs::path& process, const std::string& number) {
  const std::string info = read_file_if_exists(process / "fdinfo" / number).value_or("");
  const size_t flags = info.find("flags:");
  if (flags == std::string::npos) return false;
  return (std::strtol(info.c_str() + flags + 6, nullptr, 8) & O_ACCMODE) != O_RDONLY;
}

void add_files_of(pid_t pid, const fs::path& folder, std::set<fs::path>& found) {
  const fs::path process = fs::path("/proc") / std::to_string(pid);
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(process / "fd", gone)) {
    std::error_code closed;
    const fs::path file = fs::read_symlink(entry.path(), closed);
    if (closed || !is_below(file, folder)) continue;
    if (is_for_writing(process, entry.path().filename())) {
      found.insert(file.lexically_relative(folder));
    }
  }
}

/// The fingerprint of the same job without its resources. Empty if the fingerprint is: all unknown
/// work of a job counts as the same work.
std::string work_of(const JobSpec& spec, std::span<const ParentResult> parents) {
  Json base = Json::parse(spec.fingerprint_base);
  base.erase("resources");
  return fingerprint(base.dump(), spec.element, parents).text();
}

fs::path place_aside(const AttemptFiles& files) {
  return files.attempt / ("checkpoints-" + std::to_string(files.pass));
}

void put_aside(const fs::path& folder, const AttemptFiles& files) {
  forget_kept_checkpoints(folder.parent_path());
  const fs::path aside = place_aside(files);
  std::error_code problem;
  fs::rename(folder, aside, problem);
  if (problem) {
    throw Error(Errc::InvalidInput, "cannot move " + folder.string() +
                                        ", which holds checkpoints of another job, to " +
                                        aside.string() + ": " + problem.message());
  }
}

fs::path note_of(const JobSpec& spec) { return spec.job_directory / "checkpoints.of"; }

bool holds_files(const fs::path& folder) {
  if (!fs::exists(folder)) return false;
  const fs::recursive_directory_iterator entries(folder);
  return std::any_of(begin(entries), end(entries),
                     [](const fs::directory_entry& entry) { return !entry.is_directory(); });
}

}  // namespace

void keep_checkpoints(const JobSpec& spec, const std::string& content) {
  if (content.empty()) return;
  const fs::path present = checkpoints_directory(spec);
  if (is_own_format(present)) return;
  const std::vector<Kept> states = kept_states(spec.job_directory);
  const std::string name = "-" + content.substr(0, 16);
  if (!states.empty() && states.back().folder.filename().native().ends_with(name)) return;
  const int number = states.empty() ? 1 : states.back().number + 1;
  const fs::path folder = kept_folder(spec.job_directory);
  const fs::path half = folder / "half";
  remove_tree(half);
  copy_state(present, half);
  fs::rename(half, folder / (std::to_string(number) + name));
  for (size_t i = 0; i + 1 < states.size(); ++i) remove_tree(states[i].folder);
}

bool put_back_checkpoints(const JobSpec& spec, const AttemptFiles& files) {
  const std::vector<Kept> states = kept_states(spec.job_directory);
  if (states.size() < 2) return false;
  const fs::path present = checkpoints_directory(spec);
  const fs::path aside = files.attempt / ("checkpoints-" + std::to_string(files.pass) + "-unread");
  const fs::path half = kept_folder(spec.job_directory) / "half";
  remove_tree(half);
  copy_state(states[states.size() - 2].folder, half);
  fs::rename(present, aside);
  fs::rename(half, present);
  remove_tree(states.back().folder);
  return true;
}

void put_back_files(const JobSpec& spec, const AttemptFiles& files,
                    const std::set<fs::path>& torn) {
  if (torn.empty()) return;
  const std::vector<Kept> states = kept_states(spec.job_directory);
  const fs::path present = checkpoints_directory(spec);
  const fs::path aside = files.attempt / ("checkpoints-" + std::to_string(files.pass) + "-torn");
  for (const fs::path& name : torn) {
    if (!fs::exists(present / name)) continue;
    make_directories((aside / name).parent_path());
    fs::rename(present / name, aside / name);
    const fs::path kept = states.empty() ? fs::path() : states.back().folder / name;
    if (!kept.empty() && fs::exists(kept)) copy_with_time(kept, present / name);
  }
}

void forget_kept_checkpoints(const fs::path& job_directory) {
  std::error_code in_use;
  remove_tree(kept_folder(job_directory), in_use);
}

std::set<fs::path> files_being_saved(const JobSpec& spec, bool all) {
  std::set<fs::path> found;
  if (!spec.checkpoint || spec.checkpoint->newer.empty()) return found;
  std::error_code none;
  const fs::path folder = fs::canonical(checkpoints_directory(spec), none);
  if (none) return found;
  for (const ProcessStat& process : processes_below(::getpid())) {
    if (!all && signal_use(process.pid, SIGTERM).is_caught) continue;
    add_files_of(process.pid, folder, found);
  }
  std::erase_if(found,
                [&](const fs::path& name) { return !match_of(name, spec.checkpoint->newer); });
  return found;
}

JobEvent try_state_before(const JobSpec& spec, const AttemptFiles& files,
                          const std::string& content, JobEvent end) {
  const int exit = end.exit.value_or(0);
  const bool is_error = end.state == JobState::Failed && exit > 0 && exit < 128;
  if (!is_error || exit == kExitAgain || content.empty()) return end;
  if (saved_content(spec, spec.checkpoint->newer) != content) return end;
  if (!put_back_checkpoints(spec, files)) {
    end.reason += "; if its checkpoint is the cause, `dlflow resubmit " + spec.run +
                  " --from-scratch` starts from the beginning";
    return end;
  }
  end.state = JobState::Queued;
  end.exit = kExitAgain;
  end.reason = "failed before it had saved anything (" + end.reason +
               "); continues from the checkpoint before its last one";
  return end;
}

std::optional<std::string> keep_own_checkpoints(const JobSpec& spec, const AttemptFiles& files,
                                                const Fingerprint& fingerprint,
                                                std::span<const ParentResult> parents) {
  if (!can_save(spec.uses, spec.checkpoint)) return std::nullopt;
  const fs::path folder = checkpoints_directory(spec);
  const std::string work = work_of(spec, parents);
  const std::string all = work + " " + fingerprint.text() + "\n";
  const auto noted = read_file_if_exists(note_of(spec));
  if (noted == all) return std::nullopt;
  if (noted && holds_files(folder)) {
    if (noted->starts_with(all)) {
      return "it continues from a checkpoint that cannot be trusted: " + noted->substr(all.size());
    }
    if (!work.empty() && noted->starts_with(work + " ")) {
      return "it continues from checkpoints that were made with other resources";
    }
    put_aside(folder, files);
  }
  write_file_atomic(note_of(spec), all, Durability::Synced);
  return std::nullopt;
}

bool begins_anew(const AttemptFiles& files) { return fs::exists(place_aside(files)); }

void doubt_checkpoints(const JobSpec& spec, const std::string& reason) {
  if (!can_save(spec.uses, spec.checkpoint)) return;
  const auto noted = read_file_if_exists(note_of(spec));
  if (!noted || !noted->ends_with('\n')) return;  // their work is unknown, or in doubt
  write_file_atomic(note_of(spec), *noted + reason, Durability::Synced);
}

}  // namespace dlflow
