#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>

namespace dlflow::runtime {

/// Waiting for something that a peer on another core does soon: a short spin, then the core is
/// yielded at every look, since there may be more ranks than cores and the peer may need this one.
///
///   for (Patience patience(timeout); !done();) if (!patience.wait()) throw_no_answer(...);
class Patience {
 public:
  explicit Patience(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  /// Lets a moment pass. False once the timeout has passed since the first call that yielded.
  bool wait() {
    if (++looks_ < kSpins) {
      __builtin_ia32_pause();
      return true;
    }
    if (looks_ == kSpins) start_ = std::chrono::steady_clock::now();
    sched_yield();
    // A look at the clock is as dear as a yield without a taker.
    return looks_ % 64 != 0 || std::chrono::steady_clock::now() - start_ < timeout_;
  }

 private:
  static constexpr uint64_t kSpins = 50;  // 2 us; best with 2 and 4 ranks on 2 cores

  std::chrono::milliseconds timeout_;
  std::chrono::steady_clock::time_point start_{};
  uint64_t looks_ = 0;
};

}  // namespace dlflow::runtime
