#pragma once

#include <algorithm>

#include "runtime/comm/core.h"

namespace dlflow::runtime {

/// Whether others want the core of a rank's thread, as far as its waits have seen (Patience).
/// Believed for 20 ms, and for twice as long each time that it is seen again soon, up to a second:
/// one look by a daemon changes little, and among others a rank seldom tries what a spin costs.
class Contention {
 public:
  bool believed(Core::Time now) const { return now < until_; }

  /// The core was taken away, or somebody took it when it was offered.
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
