#pragma once

#include <chrono>

namespace dlflow::runtime {

/// The time, and what a thread may do with the core that it waits on. Implementations: the real
/// one, and the tests' FakeCore.
class Core {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::nanoseconds;

  virtual ~Core() = default;
  virtual Time now() = 0;

  /// The processor time that this thread has had.
  virtual Duration used() = 0;

  /// Lets other threads run that wait for this core, as far as the kernel lets it: Linux offers it
  /// to threads of the same control group and session only.
  virtual void yield() = 0;

  /// Leaves the core to anybody for `duration`, and some 30 us more.
  virtual void sleep(Duration duration) = 0;
};

/// The one under the calling thread.
Core& this_core();

}  // namespace dlflow::runtime
