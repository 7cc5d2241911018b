#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/process_tree.h"

namespace dlflow {

/// The interval for calls of SaveRequest::look(), for handlers that are installed late.
inline constexpr std::chrono::milliseconds kAskAgain(250);

/// Delivers a request to save to the processes of a step on this machine.
///
/// The program that saves is rarely the one that the step starts: it runs behind a shell, a pipe,
/// `timeout` or a launcher, and has children of its own, such as data loaders. A signal would kill
/// a process without a handler, and with it the save. Therefore only processes that handle the
/// signal are asked, in any group or session below this process.
///  - A process handles it by a handler, or blocks it itself, as before sigwait(). A mask that it
///    inherited does not count.
///  - Between fork() and exec() a process has its parent's handlers, so it counts only if two
///    looks find them.
///  - Programs that forward signals (mpirun, timeout, torchrun) are asked only if no process below
///    them is. Otherwise those processes would be asked twice.
///  - PyTorch's data loaders are not asked: their handler for SIGTERM ends them.
///  - A dlflow that the step itself calls is not asked, nor are processes below it.
///
/// This process must be a subreaper, so that the orphans of the step become its children.
class SaveRequest {
 public:
  using Warn = std::function<void(const std::string&)>;

  SaveRequest(int signal, Warn warn, std::filesystem::path proc = "/proc")
      : signal_(signal), warn_(std::move(warn)), proc_(std::move(proc)) {}

  /// Asks the processes that handle the signal now and were not asked before. If /proc does not
  /// show `program`, which must be an unreaped child of this process, asks that one instead, with
  /// its group if it leads one, and calls `warn`.
  void look(pid_t program);

  bool has_asked() const { return !asked_.empty(); }

 private:
  using Name = std::pair<pid_t, uint64_t>;  // pid and start time

  std::vector<ProcessStat> to_ask(const std::vector<ProcessStat>& below) const;
  void ask_blindly(pid_t program);

  int signal_;
  Warn warn_;
  std::filesystem::path proc_;
  std::set<Name> seen_;  // by the last look
  std::set<Name> asked_;
  bool is_blind_ = false;
};

}  // namespace dlflow
