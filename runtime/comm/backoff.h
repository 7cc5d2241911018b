#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/comm/communicator.h"
#include "runtime/comm/lifeline.h"

namespace dlflow::runtime {

/// Waiting for something that takes as long as another rank computes, without a core of one's own:
/// sleeps for an eighth of the time that was waited so far, so that what comes is late by no more,
/// and never for more than a millisecond. Patience is for what comes soon.
///
///   for (Backoff backoff(comm); !done();) if (!backoff.wait()) throw_no_answer(...);
class Backoff {
 public:
  /// Of the rank that waits, which outlives this; it may be watched over (runtime/watch/watch.h).
  explicit Backoff(const Communicator& comm)
      : timeout_(comm.timeout()), lifeline_(comm.lifeline()) {}
  Backoff(const Backoff&) = delete;
  Backoff& operator=(const Backoff&) = delete;
  ~Backoff() { restart(); }

  /// As if this were new: something has come.
  void restart() {
    if (waits_ && lifeline_) lifeline_->end_wait();
    waits_ = false;
  }

  /// Lets a moment pass. False once the timeout has passed since the first call. Throws the
  /// WatchError that says why what is waited for will not come.
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
