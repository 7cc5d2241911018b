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

/// Child processes, and identities that distinguish a process from a later one with its pid.
namespace dlflow {

/// A program to start, with its environment and files. A program without a slash is looked up in
/// the PATH of `environment`.
struct Command {
  std::vector<std::string> argv = {};
  std::vector<std::string> environment = {};   ///< "NAME=value", complete
  std::filesystem::path directory = {};        ///< working directory; empty: the caller's
  std::filesystem::path standard_input = {};   ///< empty: /dev/null
  std::filesystem::path standard_output = {};  ///< appended to; empty: inherited
  std::filesystem::path standard_error = {};   ///< likewise
  bool own_group = false;                      ///< leads a process group of its own
  bool dies_with_parent = false;  ///< killed with -9 when the thread that started it ends
  uint64_t max_file_bytes =
      0;  ///< SIGXFSZ kills it before a file it writes gets larger; 0: no limit
  std::vector<int> blocked_signals = {};  ///< it and its children must unblock these to get them
  /// Likewise, and ignored even by a program that unblocks all signals, as dash does.
  std::vector<int> ignored_signals = {};
  /// It gets only 0, 1, 2 and `kept_descriptor` of the caller's descriptors.
  bool closes_descriptors = false;
  int kept_descriptor = -1;
  /// Its umask is 022 and its niceness 0, if permitted. Its limits are the highest that it may set
  /// itself, except for the stack (8 MiB), open files (65,536) and core dumps (none).
  bool has_fixed_limits = false;
};

/// Starts `command` and returns its pid. Resets signals in the child, whatever the caller set:
/// default actions, and none blocked except `blocked_signals` and `ignored_signals`. Throws
/// Error{NotFound} naming a missing program, and Error for other failures before it runs (a missing
/// interpreter or folder).
pid_t start(const Command& command);

/// How a process ended.
struct ExitStatus {
  int code = 0;    ///< exit status; 128 + n if signal n ended it
  int signal = 0;  ///< 0: it exited by itself
  bool operator==(const ExitStatus&) const = default;
};

/// Waits for the child `pid`.
ExitStatus wait_for(pid_t pid);

/// Like wait_for, but returns nothing if it has not ended. Stores in `used`, if given, its resource
/// usage and that of the children that it waited for.
std::optional<ExitStatus> poll_exit(pid_t pid, struct rusage* used = nullptr);

/// Like wait_for, but returns nothing if it does not end within `limit`.
std::optional<ExitStatus> wait_for(pid_t pid, std::chrono::milliseconds limit);

struct Output {
  ExitStatus status;
  std::string text;        ///< from standard output
  std::string errors;      ///< from standard error, if requested
  bool timed_out = false;  ///< it exceeded its time limit: it and its group were killed
};

struct OutputOptions {
  std::string input = {};
  std::chrono::milliseconds time_limit{0};  ///< 0: none; otherwise the command leads its own group
  bool collect_errors = false;              ///< otherwise they go where `command` sends them
};

/// Runs `command` to its end. Its `standard_output` and `standard_input` must be empty; collected
/// errors replace its `standard_error`. Throws like start().
Output run(Command command, const OutputOptions& options);
Output run(Command command, const std::string& input = "");

/// This process's environment.
std::vector<std::string> current_environment();
/// A variable of this process's environment; empty if it is not set.
std::string environment_variable(const char* name);

/// The path of the program `name` in the folders of `path` (such as $PATH), or nothing.
std::optional<std::filesystem::path> find_program(const std::string& name, const std::string& path);

/// The file of this program, even if /proc is not mounted.
std::filesystem::path this_program();

/// The kernel's id of this boot: 36 characters.
std::string boot_id();

/// Identifies one process on one host and boot; a pid alone may be reused.
struct ProcessIdentity {
  pid_t pid = 0;
  uint64_t start_ticks = 0;  ///< field 22 of /proc/PID/stat
  std::string boot_id;
  std::string host;
  bool operator==(const ProcessIdentity&) const = default;
};

/// The identity of a process on this host; nothing if there is none.
std::optional<ProcessIdentity> identify(pid_t pid);

enum class Liveness { Alive, Dead, Unknown };  ///< Unknown: on another host

Liveness liveness(const ProcessIdentity& process);

Json to_json(const ProcessIdentity& process);
/// Throws Error{Corrupt}.
ProcessIdentity process_identity_from_json(const Json& json);

std::string host_name();

/// Whether any process is left in the group.
bool group_exists(pid_t group);

}  // namespace dlflow
