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

/// Blocks the signals to be forwarded, and queues them for next(). Must be created before anything
/// that takes time.
class Signals {
 public:
  /// \param flags  SFD_NONBLOCK: next() does not wait
  explicit Signals(int flags = 0);
  int descriptor() const { return pipe_.get(); }
  /// The next signal, or SIGCHLD when a child ends; nothing if there is none and it does not wait.
  std::optional<int> next() const;

 private:
  FileDescriptor pipe_;
};

/// Creates Rendezvous::control() and holds its outer end. When it closes, at the latest with this
/// process, the program inside is killed.
class ControlPipe {
 public:
  explicit ControlPipe(const Rendezvous& meeting);
  void tell(char byte) const;

 private:
  FileDescriptor pipe_;
};

/// Waits for the child `runtime` to end and meanwhile forwards signals: through `pipe` if there is
/// one, else to the runtime, which forwards them itself, as srun does.
ExitStatus stay_beside(pid_t runtime, const Signals& signals,
                       const std::optional<ControlPipe>& pipe);

}  // namespace dlflow
