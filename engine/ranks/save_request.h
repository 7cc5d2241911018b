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

/// How often SaveRequest::look() is to be called, for handlers that are installed late.
inline constexpr std::chrono::milliseconds kAskAgain(250);

/// A request to save, on its way to the processes of a step on this machine.
///
/// The program that saves is rarely the one that the step starts: it runs behind a shell, a pipe,
/// `timeout` or a launcher, and has children of its own, as loaders of data. A signal for a process
/// without a handler kills it, and with it the save. So each process below this one that handles
/// the signal is asked, in whatever group or session it is, and no other.
///  - It handles it by a handler, or blocks it of its own accord, as before sigwait(). A mask that
///    was inherited is no will.
///  - A process has its parent's handlers between fork() and exec(), so it is asked when two looks
///    have found it so.
///  - What passes signals on (mpirun, timeout, torchrun) is asked if nothing below it is, or all
///    below would be asked twice.
///  - The loaders of PyTorch have a handler for SIGTERM, by which they end: they are not asked.
/// A dlflow that the step itself calls is left alone, and so is all below it.
///
/// The orphans of the step have to be children of this process: it is a subreaper.
class SaveRequest {
 public:
  using Warn = std::function<void(const std::string&)>;

  SaveRequest(int signal, Warn warn, std::filesystem::path proc = "/proc")
      : signal_(signal), warn_(std::move(warn)), proc_(std::move(proc)) {}

  /// Asks the processes that are to be asked by now and were not yet. Where /proc does not show
  /// `program`, a child of this process that it has not waited for, that one is asked instead, with
  /// its group if it leads one; `warn` is told so.
  void look(pid_t program);

  bool has_asked() const { return !asked_.empty(); }

 private:
  using Name = std::pair<pid_t, uint64_t>;  // a number and its time

  std::vector<ProcessStat> to_ask(const std::vector<ProcessStat>& below) const;
  void ask_blindly(pid_t program);

  int signal_;
  Warn warn_;
  std::filesystem::path proc_;
  std::set<Name> seen_;  // at the last look
  std::set<Name> asked_;
  bool is_blind_ = false;
};

}  // namespace dlflow
