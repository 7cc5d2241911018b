#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <ctime>

#include "runtime/comm/lifeline.h"

namespace dlflow::runtime {

/// The present activity of a rank, sent to the others ten times a second. Plain memory.
struct Pulse {
  uint64_t calls = 0;               ///< collective calls so far
  uint64_t hash = 0;                ///< over these calls
  uint64_t progress = 0;            ///< changes if something moved since the last pulse
  bool waits = false;               ///< for a peer
  std::array<char, 40> activity{};  ///< "saves a checkpoint", or empty
  bool awaits = false;              ///< the activity waits for data
};

/// Takes the pulse of the thread that constructs it, for another thread. Progress is a call, a wait
/// that ended, or at least a fiftieth of the time spent on a processor without waiting; a sleeping
/// thread that polls whether it may continue uses a thousandth.
class PulseTaker {
 public:
  /// `lifeline`: of the calling thread; must outlive this.
  explicit PulseTaker(const Lifeline& lifeline);

  using Time = std::chrono::steady_clock::time_point;
  Pulse take(Time now);

 private:
  bool computes(Time now);

  const Lifeline& lifeline_;
  clockid_t clock_{};  // CPU clock of the thread
  Time measured_;
  std::chrono::nanoseconds used_{0};  // CPU time at `measured_`
  uint64_t moves_ = 0;
  uint64_t progress_ = 0;
};

}  // namespace dlflow::runtime
