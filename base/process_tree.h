#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// The processes of this machine as /proc shows them, and signals that cannot reach another process
/// with the same number.
namespace dlflow {

/// The fields of /proc/PID/stat that dlflow reads.
struct ProcessStat {
  pid_t pid = 0;
  char state = 0;  ///< 'Z' and 'X': it has ended
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  uint64_t start_ticks = 0;  ///< start time; unique together with the pid

  bool has_ended() const { return state == 'Z' || state == 'X'; }
};

/// Reads one process; returns nothing if it does not exist, or `proc` does not show it.
std::optional<ProcessStat> process_stat(pid_t pid, const std::filesystem::path& proc = "/proc");

/// All processes that `proc` shows.
std::vector<ProcessStat> all_processes(const std::filesystem::path& proc = "/proc");

/// The descendants of `root`, each after its parent.
std::vector<ProcessStat> processes_below(pid_t root, const std::filesystem::path& proc = "/proc");

/// How a process treats a signal.
struct SignalUse {
  bool is_caught = false;   ///< by a handler
  bool is_blocked = false;  ///< by its first thread, as before sigwait()
};

SignalUse signal_use(pid_t pid, int signal, const std::filesystem::path& proc = "/proc");

/// The command line of a process; empty if it cannot be read.
std::vector<std::string> command_line(pid_t pid, const std::filesystem::path& proc = "/proc");

/// The environment with which a process was started, "NAME=value"; empty if it cannot be read.
std::vector<std::string> environment_of(pid_t pid);

/// Sends `signal` to that process, never to a later one with the same pid.
void send_signal(const ProcessStat& process, int signal);

/// Kills all processes below this one, which must be a subreaper without other children, and waits
/// for them to end, for about a second at most.
void kill_all_below();

}  // namespace dlflow
