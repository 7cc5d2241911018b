#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>

#include "runtime/comm/communicator.h"
#include "runtime/comm/lifeline.h"

namespace dlflow::runtime {

/// Waiting for something that a peer on another core does soon: a spin, then the core is yielded at
/// every look. There is hardly a spin where there are more ranks than cores, and the peer may need
/// this one; else a core that is given away comes back late if anything else runs on the node.
///
///   for (Patience patience(comm); !done();) if (!patience.wait()) throw_no_answer(...);
class Patience {
 public:
  /// Of the rank that waits, which outlives this; it may be watched over (runtime/watch/watch.h).
  explicit Patience(const Communicator& comm)
      : timeout_(comm.timeout()),
        lifeline_(comm.lifeline()),
        spins_(comm.shares_cores() ? kFewSpins : kSpins) {}
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;
  ~Patience() { restart(); }

  /// As if this were new: something has come.
  void restart() {
    if (lifeline_ && looks_ >= spins_) lifeline_->end_wait();
    looks_ = 0;
  }

  /// Lets a moment pass. False once the timeout has passed since the first call that yielded.
  /// Throws the WatchError that says why the peer will not come.
  bool wait() {
    if (++looks_ < spins_) {
      __builtin_ia32_pause();
      return true;
    }
    if (looks_ == spins_) start();
    sched_yield();
    if (lifeline_) lifeline_->check();
    // A look at the clock is as dear as a yield without a taker.
    return looks_ % 64 != 0 || std::chrono::steady_clock::now() - start_ < timeout_;
  }

 private:
  /// With 3 to 16 ranks on 2 cores, 50 (2 us) take up to twice as long for a few bytes, and as long
  /// from 64 KiB on.
  static constexpr uint64_t kFewSpins = 2;
  static constexpr uint64_t kSpins = 5000;  // 0.2 ms on shared memory, 2 ms on messages

  void start() {
    start_ = std::chrono::steady_clock::now();
    if (lifeline_) lifeline_->begin_wait();
  }

  std::chrono::milliseconds timeout_;
  Lifeline* lifeline_;
  uint64_t spins_;
  std::chrono::steady_clock::time_point start_{};
  uint64_t looks_ = 0;
};

}  // namespace dlflow::runtime
