#pragma once

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

}  // namespace dlflow::runtime
