#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

/// Child processes, and a process as distinct from another that has its number now.
namespace dlflow {

/// A program to start, with its environment and files. A program without a slash is looked up in
/// the PATH of `environment`.
struct Command {
  std::vector<std::string> argv;
  std::vector<std::string> environment;       ///< "NAME=value", all of it
  std::filesystem::path directory;            ///< working directory; empty: this one's
  std::filesystem::path standard_input = {};  ///< empty: /dev/null
  std::filesystem::path standard_output;      ///< appended to; empty: inherited
  std::filesystem::path standard_error;       ///< the same
  bool own_group = false;                     ///< leads a process group of its own
  bool dies_with_parent = false;  ///< killed with -9 when the thread that started it ends
  uint64_t max_file_bytes =
      0;  ///< it is killed (SIGXFSZ) before a file it writes is larger; 0: none
  std::vector<int> blocked_signals = {};  ///< it, and what it starts, first has to unblock these
  /// Likewise, and they do nothing to a program that unblocks all signals, as dash does.
  std::vector<int> ignored_signals = {};
  /// Of the caller's descriptors it gets 0, 1, 2 and `kept_descriptor` alone.
  bool closes_descriptors = false;
  int kept_descriptor = -1;
  /// Its umask is 022 and its niceness 0, where that may be set. Its limits are the highest that it
  /// may set itself, but for the stack (8 MiB), open files (65,536) and core dumps (none).
  bool has_fixed_limits = false;
};

/// Starts `command`; its pid. What another thread or the program
/// does to signals is undone: the child has the default actions and none blocked, but for
/// `blocked_signals` and `ignored_signals`.
/// Throws Error{NotFound} naming the program if there is none, and Error for what else fails before
/// it runs (a missing interpreter, a folder that is gone).
pid_t start(const Command& command);

/// The end of a process.
struct ExitStatus {
  int code = 0;    ///< exit status; 128 + n if signal n ended it
  int signal = 0;  ///< 0: it exited by itself
  bool operator==(const ExitStatus&) const = default;
};

/// Waits for the child `pid`.
ExitStatus wait_for(pid_t pid);

/// As wait_for, if it has ended. `used`, if given, gets the resources that it used, with those of
/// the children that it waited for.
std::optional<ExitStatus> poll_exit(pid_t pid, struct rusage* used = nullptr);

/// As wait_for, if it ends within `limit`.
std::optional<ExitStatus> wait_for(pid_t pid, std::chrono::milliseconds limit);

struct Output {
  ExitStatus status;
  std::string text;        ///< what it wrote to standard output
  std::string errors;      ///< to standard error, if that was asked for
  bool timed_out = false;  ///< its time was over: it and its group were killed
};

struct OutputOptions {
  std::string input = {};
  std::chrono::milliseconds time_limit{0};  ///< 0: none; else the command leads its own group
  bool collect_errors = false;              ///< else they go where the command says
};

/// Runs `command` to its end. Collected streams must not be set in `command`: its `standard_output`
/// and `standard_input` are empty. Throws as start().
Output run(Command command, const OutputOptions& options);
Output run(Command command, const std::string& input = "");

/// This process's environment.
std::vector<std::string> current_environment();
/// One of its variables; empty if there is none.
std::string environment_variable(const char* name);

/// The path of the program `name` in the folders of `path` (as in $PATH), or nothing.
std::optional<std::filesystem::path> find_program(const std::string& name, const std::string& path);

/// The file of this program, also where /proc is not mounted.
std::filesystem::path this_program();

/// The kernel's id of this boot: 36 characters.
std::string boot_id();

/// One process on one host since one boot; its number alone may be used again.
struct ProcessIdentity {
  pid_t pid = 0;
  uint64_t start_ticks = 0;  ///< field 22 of /proc/PID/stat
  std::string boot_id;
  std::string host;
  bool operator==(const ProcessIdentity&) const = default;
};

/// Of a process of this host; nothing if there is none.
std::optional<ProcessIdentity> identify(pid_t pid);

enum class Liveness { Alive, Dead, Unknown };  ///< Unknown: it is on another host

Liveness liveness(const ProcessIdentity& process);

Json to_json(const ProcessIdentity& process);
/// Throws Error{Corrupt}.
ProcessIdentity process_identity_from_json(const Json& json);

std::string host_name();

/// Whether any process is left in the group.
bool group_exists(pid_t group);

}  // namespace dlflow
