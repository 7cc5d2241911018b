#include "engine/supervisor/ending.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/exit_status.h"
#include "base/file.h"
#include "base/process.h"
#include "base/units.h"
#include "engine/decide/retry.h"
#include "engine/model/step_kinds.h"
#include "engine/plan/run_directory.h"
#include "engine/ranks/rank_exec.h"
#include "engine/supervisor/launch.h"
#include "engine/supervisor/lost_node.h"
#include "engine/supervisor/telling_line.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

/// The number of processes that the kernel has killed for lack of memory, on this machine since it
/// booted.
uint64_t out_of_memory_kills() {
  constexpr std::string_view kKey = "\noom_kill ";
  const std::string counters = read_file_if_exists("/proc/vmstat").value_or("");
  const size_t found = counters.find(kKey);
  if (found == std::string::npos) return 0;
  return std::strtoull(counters.c_str() + found + kKey.size(), nullptr, 10);
}

/// "; what to do" about what programs often say in the end; else empty.
std::string cure_of(std::string_view line) {
  constexpr std::pair<std::string_view, std::string_view> kCures[] = {
      {"No module named 'dlflow'",
       "; run `pip install dlflow-*.whl` with the step's Python; see docs/user/python.md"},
      {"No module named",
       "; activate its virtual environment and start a new run, write `environment: {venv: "
       "FOLDER}`, or name its file in `inputs`"},
      {"was build without libuv",
       "; write `env: {USE_LIBUV: \"0\"}` in the step, or install PyTorch from PyPI"},
      {"Disk quota exceeded", "; free space there, or write to another file system"},
      {"CUDA out of memory", "; take a smaller batch, or a GPU with more memory"},
      {": command not found", "; correct it, or load it: environment: {modules: [NAME]}"}};
  for (const auto& [said, cure] : kCures) {
    if (line.find(said) != line.npos) return std::string(cure);
  }
  return "";
}

/// " in /usr/bin/python3", if the command begins with a Python of the user's PATH.
std::string python_of(const JobSpec& spec) {
  const bool is_list = spec.run_command.is_array() && spec.run_command[0].is_string();
  const std::string command = (is_list ? spec.run_command[0] : spec.run_command).dump();
  const std::string name = command.substr(1, command.find_first_of(" \"", 1) - 1);
  const bool is_of_user =
      spec.setup.empty() && !spec.container && !spec.environment.contains("PATH");
  if (!is_of_user || !name.starts_with("python")) return "";
  const auto program = find_program(name, caller_variables(spec)["PATH"]);
  return program ? " in " + program->string() : "";
}

std::string pattern_of(const JobSpec& spec) {
  return spec.checkpoint ? spec.checkpoint->newer : "";
}

/// The files that were saved completely. If there are ranks, some may still be saving elsewhere.
SavedFiles whole_files(const JobSpec& spec, const std::set<fs::path>& torn) {
  constexpr useconds_t kSettles = 100'000;
  SavedFiles files = saved_files(spec, pattern_of(spec));
  if (spec.resources.ranks > 1 && !files.empty()) {
    ::usleep(kSettles);
    const SavedFiles later = saved_files(spec, pattern_of(spec));
    std::erase_if(files, [&](const auto& file) {
      const auto found = later.find(file.first);
      return found == later.end() || found->second != file.second;
    });
  }
  std::erase_if(files, [&](const auto& file) { return torn.contains(file.first); });
  return files;
}

/// Whether a read-only copy of a read-only file is in the working directory.
bool has_read_only_copy(const fs::path& work) {
  int looked_at = 0;
  constexpr int kMostEntries = 1000;
  std::error_code none;
  for (auto at = fs::recursive_directory_iterator(work, none);
       at != fs::recursive_directory_iterator() && ++looked_at < kMostEntries; at.increment(none)) {
    const fs::file_status status = at->symlink_status(none);
    const bool may_write = (status.permissions() & fs::perms::owner_write) != fs::perms::none;
    if (!fs::is_symlink(status) && !may_write) return true;
  }
  return false;
}

class Ending {
 public:
  Ending(const JobSpec& spec, const AttemptFiles& files, const SupervisorOptions& options,
         const BeforePass& before, const Watched& watched)
      : spec_(spec),
        files_(files),
        options_(options),
        before_(before),
        watched_(watched),
        said_(end_of_output(files.standard_error(), before.standard_error_bytes)),
        lost_node_(spec.resources.ranks > 1 ? dlflow::lost_node(said_) : std::nullopt),
        newer_(newer_file(before.saved, whole_files(spec, before.torn))),
        out_of_memory_(out_of_memory_kills() > before.memory_kills ||
                       ran_out_of_memory(options, before)) {}

  JobEvent event() const {
    const int code = exit_code();
    const bool on_request =
        ends_on_request(spec_, before_, watched_) && (newer_ || pattern_of(spec_).empty());
    const bool saved = on_request || code == kExitAgain;
    const milliseconds walltime = spec_.resources.walltime;
    const std::string limit = walltime.count() > 0 ? "walltime of " + format_duration(walltime)
                                                   : "time limit of the cluster";
    JobEvent end;
    end.exit = on_request ? kExitAgain : code;
    if (watched_.cause == StopCause::Terminated && options_.requeues) {
      end.reason = saved ? "stopped by SIGTERM, checkpoint saved" : "stopped by SIGTERM";
    } else if (watched_.cause == StopCause::Requested || watched_.cause == StopCause::Terminated) {
      end.state = JobState::Cancelled;
      end.reason = saved ? "stopped on request, checkpoint saved" : "stopped on request";
    } else if (saved && has_progress()) {
      end.state = JobState::Queued;
      if (is_idle()) end.idle_passes = before_.idle_passes + 1;
      end.reason = watched_.cause == StopCause::Walltime
                       ? limit + " reached; continues from " + goes_on()
                       : "saved a checkpoint and asked to be run again" + why_again();
      if (end.idle_passes > 0) end.reason += ", with which the pass began";
      if (end.idle_passes > 1) {
        end.state = JobState::TimedOut;
        end.reason =
            "no progress: two passes in a row ended with the checkpoint that they began with; "
            "save more often, or give it more time than " +
            (walltime.count() > 0 ? format_duration(walltime) : "it has");
      }
    } else if (has_lost_node()) {
      const bool goes_on_from_it = has_progress() && !is_idle();
      end.state = goes_on_from_it ? JobState::Queued : JobState::Lost;
      end.exit = goes_on_from_it ? kExitAgain : 128 + SIGKILL;  // the exit status of its ranks
      end.reason = !lost_node_->empty()      ? "node " + *lost_node_ + " failed"
                   : was_not_launched(said_) ? "a node could not start its ranks"
                                             : "a node failed";
      if (goes_on_from_it) end.reason += "; continues from " + goes_on();
    } else if (saved && watched_.cause != StopCause::Walltime) {
      end.state = JobState::Failed;
      end.reason =
          "exit 75 (run me again), but no progress since the last checkpoint" + why_again();
    } else if (failed_to_save(code)) {
      end.state = JobState::Failed;
      end.reason = failure_reason(code) + " after it was asked to save, before the " + limit;
    } else if (watched_.cause == StopCause::Walltime) {
      end.state = JobState::TimedOut;
      end.reason = limit + " reached";
      if (saved) {
        end.reason += "; no progress since the last checkpoint";
      } else if (const std::string pattern = pattern_of(spec_); !pattern.empty()) {
        end.reason += before_.torn.empty()
                          ? ", and no file that matches " + pattern + " is new"
                          : ", while " + before_.torn.begin()->string() +
                                " was being written; give `lead:` more time, or write it under "
                                "another name and rename it";
      }
    } else if (const auto lost = lost_rank(); lost && has_progress() && !is_idle()) {
      end.state = JobState::Queued;
      end.exit = kExitAgain;
      end.reason = *lost + "; continues from " + goes_on();
    } else {
      end.state = JobState::Failed;
      end.reason = failure_reason(code);
    }
    end.failed_node = lost_node_.value_or("");
    return end;
  }

 private:
  /// Whether the pass ended because a node was lost, and not because of a request.
  bool has_lost_node() const {
    return lost_node_ &&
           (watched_.cause == StopCause::None || watched_.cause == StopCause::LostRank);
  }

  /// Whether a command saved the content that it began with, or reported no further step.
  bool is_idle() const {
    if (!spec_.uses.empty() || !spec_.checkpoint) return false;
    const std::string step = reported_step(files_, before_.reported_bytes);
    if (!step.empty() && step == before_.reported) return true;
    return !before_.content.empty() && saved_content(spec_, pattern_of(spec_)) == before_.content;
  }

  /// The first rank of a saving command that a signal ended. The program will run again, so this is
  /// not its mistake; but if the next try has more memory, that matters more.
  std::optional<std::string> lost_rank() const {
    if (!spec_.uses.empty() || !spec_.checkpoint) return std::nullopt;
    if (out_of_memory_ && wants_more_memory(spec_.retry, 128 + SIGKILL)) return std::nullopt;
    return read_lost_rank(files_.lost_rank());
  }

  /// Whether the program, after the request to save, died of a signal or an error, and not at the
  /// end of its time.
  bool failed_to_save(int code) const {
    if (watched_.cause != StopCause::Walltime || watched_.was_ended || code == 0) return false;
    if (!can_save(spec_.uses, spec_.checkpoint)) return false;
    const bool is_killed = code == 128 + SIGKILL || code == 128 + SIGTERM;  // by the batch system
    return (code > 128 && !is_killed) ||
           has_error(files_.standard_error(), before_.standard_error_bytes);
  }

  bool has_progress() const {
    if (!pattern_of(spec_).empty()) return newer_.has_value();
    return checkpoint_signature(spec_) != before_.checkpoints;
  }

  /// "its checkpoint", "ckpt/last.pt"
  std::string goes_on() const { return newer_.value_or("its checkpoint"); }

  /// The kernel killed a rank for lack of memory, and the others asked to run again: if the next
  /// try has more memory, the lack of memory counts. And a program does not succeed if the kernel
  /// killed a part of it.
  int exit_code() const {
    if (watched_.cause == StopCause::LostRank) {  // its launcher's own status has no meaning
      return bad_end_of_task(said_).value_or(128 + SIGKILL);
    }
    if (watched_.exit.code == 0) return ran_out_of_memory(options_, before_) ? 128 + SIGKILL : 0;
    const int code = asked_first() ? kExitAgain : watched_.exit.code;
    const bool counts = code == kExitAgain && watched_.cause == StopCause::None && out_of_memory_ &&
                        wants_more_memory(spec_.retry, 128 + SIGKILL);
    return counts ? 128 + SIGKILL : code;
  }

  /// Whether the first rank that failed asked to run again. SLURM 24.11 kills the others a second
  /// later, and srun returns their status.
  bool asked_first() const {
    return watched_.cause == StopCause::None && is_by_srun(spec_) &&
           bad_end_of_task(said_) == kExitAgain;
  }

  /// "; error: rank 1 (node b2): killed by signal 9 (Killed)", if the program printed such a line.
  std::string why_again() const {
    const std::string line = telling_line(files_.standard_error(), before_.standard_error_bytes);
    return line.starts_with("error") ? "; " + line : "";
  }

  /// ", asked for 1 GiB": the requested memory, if there is one.
  std::string asked_for() const {
    const uint64_t given = options_.memory_bytes;
    const uint64_t bytes = given > 0 ? given : spec_.resources.memory_bytes;
    if (bytes == 0) return "";
    const bool per_node = given > 0 && spec_.resources.ranks > 1;
    return ", asked for " + format_size(bytes) + (per_node ? " per node" : "");
  }

  std::string failure_reason(int code) const {
    const std::string line = telling_line(files_.standard_error(), before_.standard_error_bytes);
    std::string rest = line.empty() ? "" : ": " + line;
    if (line.find("Permission denied") != line.npos && has_read_only_copy(files_.work())) {
      rest += "; published outputs are read-only, and so are copies: `cp -r --no-preserve=mode`";
    }
    if (line.find("cannot execute: required file not found") != line.npos ||
        line.find("bad interpreter") != line.npos) {
      rest += "; if its lines end in CR LF, as on Windows, `sed -i 's/\\r$//' FILE` fixes it";
    }
    if (line.find("No module named") != line.npos) rest += python_of(spec_);
    rest += cure_of(line);
    std::error_code unknown;
    if (fs::space(files_.attempt, unknown).available == 0) {  // the maximum, if it is unknown
      rest += "; No space left on device in " + files_.attempt.string();
    }
    const int signal = code > 128 ? code - 128 : 0;
    const auto lost = spec_.uses.empty() ? read_lost_rank(files_.lost_rank()) : std::nullopt;
    if (lost && !(signal == SIGKILL && out_of_memory_)) return *lost + rest;
    if (signal == SIGKILL && out_of_memory_) {
      return "out of memory (killed by the kernel)" + asked_for() + rest;
    }
    if (signal > 0 && signal < 65) {
      return "killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")" + rest;
    }
    return "exit " + std::to_string(code) + rest;
  }

  const JobSpec& spec_;
  const AttemptFiles& files_;
  const SupervisorOptions& options_;
  const BeforePass& before_;
  const Watched& watched_;
  std::string said_;                      ///< on standard error
  std::optional<std::string> lost_node_;  ///< possibly without a name
  std::optional<std::string> newer_;      ///< of the files that `checkpoint:` names
  bool out_of_memory_;
};

int idle_passes(const AttemptFiles& files) {
  int passes = 0;
  if (files.pass == 1) return passes;
  for (const JobEvent& event : EventTail(files.events()).read()) {
    if (event.state == JobState::Queued) passes = event.idle_passes;
  }
  return passes;
}

}  // namespace

BeforePass look_before_pass(const JobSpec& spec, const AttemptFiles& files,
                            const SupervisorOptions& options) {
  BeforePass before;
  before.checkpoints = checkpoint_signature(spec);
  if (spec.uses.empty() && spec.checkpoint) {
    before.content = saved_content(spec, pattern_of(spec));
    before.reported = reported_step(files, 0);
    before.reported_bytes = size_or_zero(files.metrics());
    before.idle_passes = idle_passes(files);
  }
  before.saved = saved_files(spec, pattern_of(spec));
  before.memory_kills = out_of_memory_kills();
  if (options.memory_kills) before.memory_kills_of_job = options.memory_kills();
  before.standard_error_bytes = size_or_zero(files.standard_error());
  return before;
}

bool ran_out_of_memory(const SupervisorOptions& options, const BeforePass& before) {
  return options.memory_kills && options.memory_kills() > before.memory_kills_of_job;
}

bool ends_on_request(const JobSpec& spec, const BeforePass& before, const Watched& watched) {
  if (watched.cause == StopCause::None || watched.cause == StopCause::Unwanted ||
      watched.cause == StopCause::LostRank) {
    return false;
  }
  if (!pattern_of(spec).empty()) return true;
  const bool is_command = spec.uses.empty() && spec.checkpoint;
  return is_command && before.at_request && checkpoint_signature(spec) != *before.at_request;
}

JobEvent ending_of(const JobSpec& spec, const AttemptFiles& files, const SupervisorOptions& options,
                   const BeforePass& before, const Watched& watched) {
  return Ending(spec, files, options, before, watched).event();
}

JobEvent end_or_next_try(const JobSpec& spec, const SupervisorOptions& options, int failed_tries,
                         JobEvent end) {
  end.failed_tries = failed_tries;
  const int tries = failed_tries + 1;
  if (!options.requeues || !should_retry(spec.retry, end, tries)) return end;
  const bool more = end.state == JobState::Failed && wants_more_memory(spec.retry, end.exit) &&
                    options.more_memory_bytes > 0;
  std::chrono::seconds longer{0};
  if (end.state == JobState::TimedOut) {
    const auto next = next_walltime(spec.retry, spec.resources.walltime, spec.walltime_limit);
    if (next > spec.resources.walltime) longer = next;
  }
  const std::string with = (more ? " with " + format_size(options.more_memory_bytes) : "") +
                           (longer.count() > 0 ? " in " + format_duration(longer) : "");
  return {.state = JobState::Queued,
          .exit = end.exit,
          .reason = next_try_in_words(spec.retry, tries, end.reason, with),
          .failed_tries = tries,
          .walltime = longer,
          .failed_node = end.failed_node,
          .used = end.used};
}

}  // namespace dlflow
