#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/comm/communicator.h"
#include "runtime/comm/lifeline.h"

namespace dlflow::runtime {

/// Waits for something that takes as long as another rank computes, without occupying a core: each
/// sleep lasts an eighth of the time waited so far, at most a millisecond, so that it adds little
/// delay. For short waits, use Patience.
///
///   for (Backoff backoff(comm); !done();) if (!backoff.wait()) throw_no_answer(...);
class Backoff {
 public:
  /// `comm`: of the waiting rank; outlives this and may have a watch (runtime/watch/watch.h).
  explicit Backoff(const Communicator& comm)
      : timeout_(comm.timeout()), lifeline_(comm.lifeline()) {}
  Backoff(const Backoff&) = delete;
  Backoff& operator=(const Backoff&) = delete;
  ~Backoff() { restart(); }

  /// Starts anew, after something has arrived.
  void restart() {
    if (waits_ && lifeline_) lifeline_->end_wait();
    waits_ = false;
  }

  /// Sleeps for a moment. False once the timeout has passed since the first call. Throws the
  /// watch's WatchError if the wait is in vain.
  bool wait() {
    using namespace std::chrono_literals;
    const auto now = std::chrono::steady_clock::now();
    if (!waits_) {
      waits_ = true;
      start_ = now;
      if (lifeline_) lifeline_->begin_wait();
    }
    if (lifeline_) lifeline_->check();
    const std::chrono::nanoseconds waited = now - start_;
    std::this_thread::sleep_for(std::clamp<std::chrono::nanoseconds>(waited / 8, 10us, 1ms));
    return waited < timeout_;
  }

 private:
  std::chrono::milliseconds timeout_;
  Lifeline* lifeline_;
  bool waits_ = false;
  std::chrono::steady_clock::time_point start_{};
};

}  // namespace dlflow::runtime
