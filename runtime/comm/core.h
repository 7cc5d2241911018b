#pragma once

#include <algorithm>
#include <chrono>

namespace dlflow::runtime {

/// The clock, and the ways to give up a core while waiting. Implementations: the real one, and the
/// tests' FakeCore.
class Core {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::nanoseconds;

  virtual ~Core() = default;
  virtual Time now() = 0;

  /// The processor time that this thread has used.
  virtual Duration used() = 0;

  /// Offers this core to other threads. Linux offers it only to threads of the same control group
  /// and session.
  virtual void yield() = 0;

  /// Frees the core for `duration`, plus some 30 us.
  virtual void sleep(Duration duration) = 0;
};

/// The core of the calling thread.
Core& this_core();

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
