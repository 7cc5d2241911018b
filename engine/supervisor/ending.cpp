#include "engine/supervisor/ending.h"

#include <signal.h>

#include <cstdlib>
#include <cstring>

#include "base/exit_status.h"
#include "base/file.h"
#include "base/units.h"
#include "engine/plan/retry.h"
#include "engine/supervisor/telling_line.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

/// How many processes the kernel has killed for want of memory, on this machine since it booted.
uint64_t out_of_memory_kills() {
  constexpr std::string_view kKey = "\noom_kill ";
  const std::string counters = read_file_if_exists("/proc/vmstat").value_or("");
  const size_t found = counters.find(kKey);
  if (found == std::string::npos) return 0;
  return std::strtoull(counters.c_str() + found + kKey.size(), nullptr, 10);
}

std::string pattern_of(const JobSpec& spec) {
  return spec.checkpoint ? spec.checkpoint->newer : "";
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
        newer_(newer_file(before.saved, saved_files(spec, pattern_of(spec)))),
        out_of_memory_(out_of_memory_kills() > before.memory_kills ||
                       ran_out_of_memory(options, before)) {}

  JobEvent event() const;

 private:
  int exit_code() const;
  bool has_progress() const;
  std::string goes_on() const;
  std::string why_again() const;
  std::string failure_reason(int code) const;
  std::string asked_for() const;

  const JobSpec& spec_;
  const AttemptFiles& files_;
  const SupervisorOptions& options_;
  const BeforePass& before_;
  const Watched& watched_;
  std::optional<std::string> newer_;  ///< of the files that `checkpoint:` names
  bool out_of_memory_;
};

JobEvent Ending::event() const {
  const int code = exit_code();
  const bool on_request = ends_on_request(spec_, watched_) && newer_;
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
    end.reason = watched_.cause == StopCause::Walltime
                     ? limit + " reached, goes on from " + goes_on()
                     : "saved a checkpoint and asked to be run again" + why_again();
  } else if (saved && watched_.cause != StopCause::Walltime) {
    end.state = JobState::Failed;
    end.reason = "exit 75 (run me again), but no progress since the last checkpoint" + why_again();
  } else if (watched_.cause == StopCause::Walltime) {
    end.state = JobState::TimedOut;
    end.reason = limit + " reached";
    if (saved) {
      end.reason += ", no progress since the last checkpoint";
    } else if (const std::string pattern = pattern_of(spec_); !pattern.empty()) {
      end.reason += ", and no file that matches " + pattern + " is new";
    }
  } else {
    end.state = JobState::Failed;
    end.reason = failure_reason(code);
  }
  return end;
}

bool Ending::has_progress() const {
  if (!pattern_of(spec_).empty()) return newer_.has_value();
  return checkpoint_signature(spec_) != before_.checkpoints;
}

/// "its checkpoint", "ckpt/last.pt"
std::string Ending::goes_on() const { return newer_.value_or("its checkpoint"); }

/// A rank that the kernel killed for want of memory, and the others asked to be run again: where
/// more memory is to follow, that is what counts. And a program does not end well if the kernel
/// killed a part of it.
int Ending::exit_code() const {
  if (watched_.exit.code == 0) return ran_out_of_memory(options_, before_) ? 128 + SIGKILL : 0;
  JobEvent killed;
  killed.state = JobState::Failed;
  killed.exit = 128 + SIGKILL;
  const bool counts = watched_.exit.code == kExitAgain && watched_.cause == StopCause::None &&
                      out_of_memory_ && wants_more_memory(spec_.retry, killed);
  return counts ? *killed.exit : watched_.exit.code;
}

/// "; error: rank 1 (node b2): killed by signal 9 (Killed)", if the program said such a thing.
std::string Ending::why_again() const {
  const std::string line = telling_line(files_.standard_error(), before_.standard_error_bytes);
  return line.starts_with("error") ? "; " + line : "";
}

/// ", asked for 1 GiB": of memory, if anybody did.
std::string Ending::asked_for() const {
  const uint64_t given = options_.memory_bytes;
  const uint64_t bytes = given > 0 ? given : spec_.resources.memory_bytes;
  if (bytes == 0) return "";
  const bool per_node = given > 0 && spec_.resources.ranks > 1;
  return ", asked for " + format_size(bytes) + (per_node ? " per node" : "");
}

std::string Ending::failure_reason(int code) const {
  const std::string line = telling_line(files_.standard_error(), before_.standard_error_bytes);
  std::string rest = line.empty() ? "" : ": " + line;
  std::error_code unknown;
  if (fs::space(files_.attempt, unknown).available == 0) {  // the maximum if it is unknown
    rest += "; No space left on device in " + files_.attempt.string();
  }
  const int signal = code > 128 ? code - 128 : 0;
  if (signal == SIGKILL && out_of_memory_) {
    return "out of memory (killed by the kernel)" + asked_for() + rest;
  }
  if (signal > 0 && signal < 65) {
    return "killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")" + rest;
  }
  return "exit " + std::to_string(code) + rest;
}

}  // namespace

BeforePass look_before_pass(const JobSpec& spec, const AttemptFiles& files,
                            const SupervisorOptions& options) {
  std::error_code none;
  const auto bytes = fs::file_size(files.standard_error(), none);
  return {.checkpoints = checkpoint_signature(spec),
          .saved = saved_files(spec, pattern_of(spec)),
          .memory_kills = out_of_memory_kills(),
          .memory_kills_of_job = options.memory_kills ? options.memory_kills() : 0,
          .standard_error_bytes = none ? 0 : bytes,
          .energy = read_energy()};
}

bool ran_out_of_memory(const SupervisorOptions& options, const BeforePass& before) {
  return options.memory_kills && options.memory_kills() > before.memory_kills_of_job;
}

bool ends_on_request(const JobSpec& spec, const Watched& watched) {
  const bool is_request = watched.cause != StopCause::None && watched.cause != StopCause::Unwanted;
  return is_request && !pattern_of(spec).empty();
}

JobEvent ending_of(const JobSpec& spec, const AttemptFiles& files, const SupervisorOptions& options,
                   const BeforePass& before, const Watched& watched) {
  return Ending(spec, files, options, before, watched).event();
}

}  // namespace dlflow
