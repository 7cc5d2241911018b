#pragma once

#include <sys/types.h>

#include <chrono>

#include "base/handle.h"
#include "base/process.h"

/// Watching over a program: its end, its time, and who wants it to stop.
namespace dlflow {

struct WatchOptions {
  std::chrono::seconds walltime{0};  ///< 0: none
  /// How it is asked to save and end: SIGUSR1 if it can save (ranks behind mpirun get it too),
  /// SIGTERM if it only can end.
  int request_signal = 0;
  std::chrono::milliseconds grace{0};  ///< from the request to SIGKILL
};

enum class StopCause { None, Walltime, Requested };

struct Watched {
  ExitStatus exit;
  StopCause cause = StopCause::None;  ///< why it was asked to stop, if it was
  bool killed = false;                ///< it did not stop in time
};

/// Takes over SIGTERM, SIGINT, SIGUSR1 and SIGCHLD of this thread while it lives, so that a request
/// that comes before the program has started is not lost.
class Watcher {
 public:
  Watcher();

  /// Waits until `program`, the leader of a process group, has ended, and ends what it left behind.
  Watched watch(pid_t program, const WatchOptions& options);

  /// Someone asked for the end before there was a program.
  bool stop_requested();

 private:
  struct Requests {
    int stops = 0;
    bool children = false;
  };
  Requests read_signals(std::chrono::milliseconds timeout);

  FileDescriptor signals_;
  int stops_ = 0;
};

}  // namespace dlflow
