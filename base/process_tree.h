#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// The processes of this machine as /proc shows them, and signals that can hit no stranger.
namespace dlflow {

/// The fields of /proc/PID/stat that dlflow reads.
struct ProcessStat {
  pid_t pid = 0;
  char state = 0;  ///< 'Z' and 'X': it has ended
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  uint64_t start_ticks = 0;  ///< when it began; no other process has both number and time

  bool has_ended() const { return state == 'Z' || state == 'X'; }
};

/// Nothing if there is no such process, or `proc` does not show it.
std::optional<ProcessStat> process_stat(pid_t pid, const std::filesystem::path& proc = "/proc");

/// All that `proc` shows.
std::vector<ProcessStat> all_processes(const std::filesystem::path& proc = "/proc");

/// The children of `root`, theirs, and so on; each behind its parent.
std::vector<ProcessStat> processes_below(pid_t root, const std::filesystem::path& proc = "/proc");

/// The treatment of one signal by a process.
struct SignalUse {
  bool is_caught = false;   ///< by a handler
  bool is_blocked = false;  ///< by its first thread, as before sigwait()
};

SignalUse signal_use(pid_t pid, int signal, const std::filesystem::path& proc = "/proc");

/// The words by which a process was started; none if that cannot be read.
std::vector<std::string> command_line(pid_t pid, const std::filesystem::path& proc = "/proc");

/// Its variables when it was started, "NAME=value"; none if that cannot be read.
std::vector<std::string> environment_of(pid_t pid);

/// Sends `signal` to that process, and to no other that has its number by now.
void send_signal(const ProcessStat& process, int signal);

/// Kills all processes below this one, a subreaper that has no children but those, and waits for
/// their ends, at most for about a second.
void kill_all_below();

}  // namespace dlflow
