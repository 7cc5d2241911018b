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
  uint64_t hash = 0;                ///< of them
  uint64_t progress = 0;            ///< differs from the last one: something moved since
  bool waits = false;               ///< for a peer
  std::array<char, 40> activity{};  ///< "saves a checkpoint", or empty
  bool awaits = false;              ///< the activity is to wait for what must come
};

/// Feels the pulse of the thread that makes it, for another thread. Progress is a call, a wait that
/// ended, or a fiftieth of the time spent on a processor with anything but waiting: a thread that
/// sleeps and looks whether it may go on uses a thousandth.
class PulseTaker {
 public:
  /// `lifeline` of the calling thread; must outlive this.
  explicit PulseTaker(const Lifeline& lifeline);

  using Time = std::chrono::steady_clock::time_point;
  Pulse take(Time now);

 private:
  bool computes(Time now);

  const Lifeline& lifeline_;
  clockid_t clock_{};  // of the thread
  Time measured_;
  std::chrono::nanoseconds used_{0};  // by then
  uint64_t moves_ = 0;
  uint64_t progress_ = 0;
};

}  // namespace dlflow::runtime
