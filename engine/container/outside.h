#pragma once

#include <signal.h>
#include <sys/types.h>

#include <array>
#include <optional>

#include "base/handle.h"
#include "base/process.h"
#include "engine/container/container_job.h"

/// The process outside of a container while its program runs: it forwards signals. container-exec
/// also uses Signals to receive them.
namespace dlflow {

constexpr std::array kPassedIn = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2};

/// Blocks the signals to be forwarded, and keeps them for next(). Call it before anything that
/// takes time.
class Signals {
 public:
  /// \param flags  SFD_NONBLOCK: next() does not wait
  explicit Signals(int flags = 0);
  int descriptor() const { return pipe_.get(); }
  /// The next signal, or SIGCHLD for a child's end; nothing if there is none and it does not wait.
  std::optional<int> next() const;

 private:
  FileDescriptor pipe_;
};

/// The outer end of Rendezvous::control(), which it makes. When it closes, at the latest with this
/// process, the program inside is killed.
class ControlPipe {
 public:
  explicit ControlPipe(const Rendezvous& meeting);
  void tell(char byte) const;

 private:
  FileDescriptor pipe_;
};

/// Waits for the end of `runtime`, a child, and forwards signals meanwhile: through `pipe`, or,
/// without one, to the runtime, which forwards them itself, as srun does.
ExitStatus stay_beside(pid_t runtime, const Signals& signals,
                       const std::optional<ControlPipe>& pipe);

}  // namespace dlflow
