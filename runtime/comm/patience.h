#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>

#include "runtime/comm/lifeline.h"

namespace dlflow::runtime {

/// Waiting for something that a peer on another core does soon: a short spin, then the core is
/// yielded at every look, since there may be more ranks than cores and the peer may need this one.
///
///   for (Patience patience(timeout); !done();) if (!patience.wait()) throw_no_answer(...);
class Patience {
 public:
  /// `lifeline` of the waiting rank, if it is watched over (runtime/watch/watch.h).
  Patience(std::chrono::milliseconds timeout, Lifeline* lifeline)
      : timeout_(timeout), lifeline_(lifeline) {}
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;
  ~Patience() { restart(); }

  /// As if this were new: something has come.
  void restart() {
    if (lifeline_ && looks_ >= kSpins) lifeline_->end_wait();
    looks_ = 0;
  }

  /// Lets a moment pass. False once the timeout has passed since the first call that yielded.
  /// Throws the WatchError that says why the peer will not come.
  bool wait() {
    if (++looks_ < kSpins) {
      __builtin_ia32_pause();
      return true;
    }
    if (looks_ == kSpins) start();
    sched_yield();
    if (lifeline_) lifeline_->check();
    // A look at the clock is as dear as a yield without a taker.
    return looks_ % 64 != 0 || std::chrono::steady_clock::now() - start_ < timeout_;
  }

 private:
  static constexpr uint64_t kSpins = 50;  // 2 us; best with 2 and 4 ranks on 2 cores

  void start() {
    start_ = std::chrono::steady_clock::now();
    if (lifeline_) lifeline_->begin_wait();
  }

  std::chrono::milliseconds timeout_;
  Lifeline* lifeline_;
  std::chrono::steady_clock::time_point start_{};
  uint64_t looks_ = 0;
};

}  // namespace dlflow::runtime
