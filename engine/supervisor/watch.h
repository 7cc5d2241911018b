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

/// Watching over a program: its end, its time, and who wants it to stop.
namespace dlflow {

struct WatchOptions {
  std::chrono::milliseconds walltime{0};  ///< 0: none
  /// A program that can save a checkpoint is asked to this long before SIGTERM; 0: it cannot.
  /// SIGTERM comes at the walltime, or so long after a request.
  std::chrono::milliseconds time_to_save{0};
  int save_signal = SIGUSR1;
  /// The program passes the signal on: its group gets it. Else see SaveRequest.
  bool has_relay = false;
  std::function<void()> on_save_request;  ///< called before the program is asked
  /// Whether a process that SIGTERM would end is in the middle of a save: it has a moment for it.
  std::function<bool()> is_saving;
  std::function<void(int signal)> before_end;    ///< called before SIGTERM, and before SIGKILL
  std::function<void(const std::string&)> warn;  ///< of what its log should say
  std::chrono::milliseconds time_to_end{0};      ///< from SIGTERM to SIGKILL
  /// Called when the first SIGTERM arrives: whoever sent it may not wait for the program's end.
  std::function<void()> on_terminate;
  /// Asked once per `look_again`: whether the program is still to run. If not it gets SIGTERM at
  /// once, since a checkpoint of it serves nobody.
  std::function<bool()> is_wanted;
  std::chrono::milliseconds look_again{0};
  /// Asked every few seconds: whether a rank has ended badly. A launcher that still runs some
  /// seconds later waits for a node that does not answer, and gets SIGTERM.
  std::function<bool()> has_lost_rank;
  /// This descriptor is readable when there is output of the program to take.
  int output = -1;
  std::function<void()> take_output;
  /// Tests turn it.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

enum class StopCause {
  None,
  Walltime,    ///< its own, or SIGUSR1: the allocation's is near
  Requested,   ///< by SIGINT, or SIGUSR2 (qdel): someone wants the job to end
  Terminated,  ///< by SIGTERM: that, or the node is taken away
  Unwanted,    ///< by WatchOptions::is_wanted
  LostRank,    ///< by WatchOptions::has_lost_rank
};

struct Watched {
  ExitStatus exit;
  StopCause cause = StopCause::None;  ///< why it was asked to stop, if it was
  bool was_ended = false;             ///< by SIGTERM or SIGKILL of its supervisor
  PassUsage used;                     ///< of it and of what it left behind
};

/// Asks `supervisor` for the end of that pass of it which `token` names (as SIGINT would), and
/// nothing if it is at work on another one by now. Each call counts. False if it cannot be asked.
bool request_stop(const ProcessIdentity& supervisor, uint64_t token);

/// The requests that came in during some time.
struct StopRequests {
  int stops = 0;  ///< how often the end was asked for
  StopCause cause = StopCause::None;
};

/// The signals of a process that runs several attempts, one after the other, and whom they are for.
/// SIGTERM and SIGUSR1 are for all of them, and wait for the next one if they come between two.
struct SharedSignals {
  /// Whether the one at work is to end, where a signal says that one of them is.
  std::function<bool()> is_requested;
  std::function<void(StopCause)> hear;  ///< Called for those that are for all
};

/// The signals that ask for the end of a program. Takes over SIGTERM, SIGINT, SIGUSR1, SIGUSR2,
/// SIGCHLD and the signal of request_stop() of this thread, for good, so that a request that comes
/// before the program has started is not lost. One that came for an earlier object of this class
/// is, unless they share signals: it was meant for that one's program.
class StopSignals {
 public:
  /// `token`: as in request_stop().
  explicit StopSignals(uint64_t token, SharedSignals shared = {});

  /// Waits for a signal, at most for `timeout`; a child's end is one, too. Or until the descriptor
  /// `other` is readable.
  StopRequests read(std::chrono::milliseconds timeout, int other = -1);

  /// Waits for a signal that asks for something.
  StopRequests wait_for_request(std::chrono::milliseconds time);

  /// True if no signal arrives within `time`.
  bool is_quiet_for(std::chrono::milliseconds time) const;

 private:
  uint64_t token_;
  SharedSignals shared_;
  FileDescriptor signals_;
  bool is_deleted_ = false;  // SIGUSR2 came
};

/// Watches over a program from its start to its end.
class Watcher {
 public:
  explicit Watcher(uint64_t token, SharedSignals shared = {})
      : signals_(token, std::move(shared)) {}

  /// Waits until `program`, the leader of a process group, has ended, and ends what it left behind.
  Watched watch(pid_t program, const WatchOptions& options);

  /// True if no signal arrives within `time`: the program runs on, and nobody asked for its end.
  bool is_quiet_for(std::chrono::milliseconds time) const { return signals_.is_quiet_for(time); }

  /// Who asked for the end before there was a program: Requested, Terminated or nobody.
  StopCause stop_requested();

 private:
  StopSignals signals_;
  StopRequests before_;  ///< the program was there
};

}  // namespace dlflow
