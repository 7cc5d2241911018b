#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "base/handle.h"
#include "base/process.h"
#include "engine/plan/job.h"

/// Supervision of a program: its end, its time, and requests to stop it.
namespace dlflow {

struct WatchOptions {
  std::chrono::milliseconds walltime{0};  ///< 0: none
  /// The time before SIGTERM at which a program that can save a checkpoint is asked to; 0: it
  /// cannot. SIGTERM comes at the walltime, or so long after a request.
  std::chrono::milliseconds time_to_save{0};
  int save_signal = SIGUSR1;
  /// The program forwards the signal: its group gets it. Otherwise see SaveRequest.
  bool has_relay = false;
  std::function<void()> on_save_request;  ///< called before the program is asked
  /// Whether a process that SIGTERM would end is in the middle of a save, which gets a moment.
  std::function<bool()> is_saving;
  std::function<void(int signal)> before_end;    ///< called before SIGTERM, and before SIGKILL
  std::function<void(const std::string&)> warn;  ///< messages for its log
  std::chrono::milliseconds time_to_end{0};      ///< from SIGTERM to SIGKILL
  /// Called when the first SIGTERM arrives: its sender may not wait for the program's end.
  std::function<void()> on_terminate;
  /// Called once per `look_again`: whether the program should still run. If not it gets SIGTERM at
  /// once, since nobody would use its checkpoint.
  std::function<bool()> is_wanted;
  std::chrono::milliseconds look_again{0};
  /// Called every few seconds: whether a rank has failed. A launcher that still runs some seconds
  /// later waits for a node that does not answer, and gets SIGTERM.
  std::function<bool()> has_lost_rank;
  /// This descriptor is readable when the program's output can be read.
  int output = -1;
  std::function<void()> take_output;
  /// A clock, real or turned by a test.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

enum class StopCause {
  None,
  Walltime,    ///< its own; or by SIGUSR1, that of the allocation is near
  Requested,   ///< by SIGINT, or SIGUSR2 (qdel): a user ends the job
  Terminated,  ///< by SIGTERM: a user ends the job, or the node is taken away
  Unwanted,    ///< by WatchOptions::is_wanted
  LostRank,    ///< by WatchOptions::has_lost_rank
};

struct Watched {
  ExitStatus exit;
  StopCause cause = StopCause::None;  ///< reason for the request to stop, if there was one
  bool was_ended = false;             ///< by SIGTERM or SIGKILL of its supervisor
  PassUsage used;                     ///< of it and of the processes that it left behind
};

/// Asks `supervisor` to end the pass that `token` names, as SIGINT would; has no effect if it works
/// on another one by now. Each call counts. False if it cannot be asked.
bool request_stop(const ProcessIdentity& supervisor, uint64_t token);

/// The requests that came in during some time.
struct StopRequests {
  int stops = 0;  ///< number of requests for the end
  StopCause cause = StopCause::None;
};

/// The signals of a process that runs several attempts, one after the other. SIGTERM and SIGUSR1
/// are for all of them, and wait for the next one if they come between two.
struct SharedSignals {
  /// Whether the current attempt must end, when a signal requests the end of one of them.
  std::function<bool()> is_requested;
  std::function<void(StopCause)> hear;  ///< called for signals that are for all
};

/// The signals that request the end of a program. Takes over SIGTERM, SIGINT, SIGUSR1, SIGUSR2,
/// SIGCHLD and the signal of request_stop() of this thread, permanently, so that a request before
/// the start of the program is not lost. A request to an earlier object of this class is lost,
/// unless they share signals: it was for that one's program.
class StopSignals {
 public:
  /// `token`: as in request_stop().
  explicit StopSignals(uint64_t token, SharedSignals shared = {});

  /// Waits for a signal, at most for `timeout`, also that of a child's end, or until the descriptor
  /// `other` is readable.
  StopRequests read(std::chrono::milliseconds timeout, int other = -1);

  /// Waits for a signal that requests something.
  StopRequests wait_for_request(std::chrono::milliseconds time);

  /// True if no signal arrives within `time`.
  bool is_quiet_for(std::chrono::milliseconds time) const;

 private:
  uint64_t token_;
  SharedSignals shared_;
  FileDescriptor signals_;
  bool is_deleted_ = false;  // SIGUSR2 came
};

/// Supervises a program from its start to its end.
class Watcher {
 public:
  explicit Watcher(uint64_t token, SharedSignals shared = {})
      : signals_(token, std::move(shared)) {}

  /// Waits until `program`, the leader of a process group, has ended, and ends the processes that
  /// it left behind.
  Watched watch(pid_t program, const WatchOptions& options);

  /// True if no signal arrives within `time`: the program runs on, and there is no request for its
  /// end.
  bool is_quiet_for(std::chrono::milliseconds time) const { return signals_.is_quiet_for(time); }

  /// The request for the end before there was a program: Requested, Terminated or none.
  StopCause stop_requested();

 private:
  StopSignals signals_;
  StopRequests before_;  ///< the program has started
};

}  // namespace dlflow
