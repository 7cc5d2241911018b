#pragma once

#include <algorithm>

#include "runtime/comm/core.h"

namespace dlflow::runtime {

/// Whether other threads compete for a rank's core, as its waits have observed (Patience). An
/// observation counts for 20 ms, doubled each time that contention soon returns, up to a second: a
/// daemon's burst changes little, and under lasting contention a rank seldom spins.
class Contention {
 public:
  bool believed(Core::Time now) const { return now < until_; }

  /// The core was taken away, or another thread used it when it was offered.
  void see(Core::Time now) {
    if (now >= until_)
      memory_ = now < until_ + memory_ ? std::min(2 * memory_, kLongest) : kShortest;
    until_ = now + memory_;
  }

 private:
  static constexpr Core::Duration kShortest = std::chrono::milliseconds(20);
  static constexpr Core::Duration kLongest = std::chrono::seconds(1);

  Core::Time until_{};
  Core::Duration memory_{0};
};

}  // namespace dlflow::runtime
