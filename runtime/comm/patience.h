#pragma once

#include <chrono>
#include <cstdint>

#include "runtime/comm/communicator.h"
#include "runtime/comm/core.h"

namespace dlflow::runtime {

/// Waits for something that a peer on another core does soon.
///
/// A core that is given away comes back late, and a core that is kept may be the one that the peer
/// needs. So the rank spins for as long as answers usually take, and then yields at every poll. If
/// the node has more ranks than cores, it hardly spins.
///
/// Yielding does not help ranks of another node or container, or other programs, on the same core:
/// the kernel alternates between control groups and sessions first, for milliseconds each. So the
/// rank measures its losses: time that passes without being its own processor time, and yields that
/// return late. After such a loss (Contention), it soon stops spinning, yields a few times, which
/// suffices among ranks of one mpirun, and then sleeps for an eighth of the time waited so far, so
/// that it adds no more than that to the delay.
///
/// A rank without losses may wait for one that has them: after a millisecond it sleeps for a 32nd
/// of the time waited, and the kernel moves threads that wait for another core to its own.
///
///   for (Patience patience(comm); !done();) if (!patience.wait()) throw_no_answer(...);
class Patience {
 public:
  /// `comm`: of the waiting rank; outlives this and may have a watch (runtime/watch/watch.h).
  /// `messages`: set if the rank waits only for a message of that communicator.
  explicit Patience(const Communicator& comm, Core& core = this_core(),
                    Communicator* messages = nullptr)
      : core_(core),
        messages_(messages),
        timeout_(comm.timeout()),
        lifeline_(comm.lifeline()),
        contention_(comm.contention()),
        spins_(comm.shares_cores() ? kFewSpins : kSpins) {}
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;
  ~Patience() { restart(); }

  /// Starts anew, after something has arrived.
  void restart() {
    if (lifeline_ && waits_) lifeline_->end_wait();
    waits_ = measures_ = false;
    looks_ = 0;
    yields_ = 0;
  }

  /// Spins, yields or sleeps for a moment. False once the timeout has passed since the first call
  /// that did not spin. Throws the watch's WatchError if the peer will not come.
  bool wait() {
    if (++looks_ < spins_ && looks_ % kLooksPerMeasurement != 0) {
      __builtin_ia32_pause();
      return true;
    }
    return wait_longer();
  }

 private:
  /// With 3 to 16 ranks on 2 cores, 50 spins (2 us) take up to twice as long for a few bytes, and
  /// equally long from 64 KiB on.
  static constexpr uint64_t kFewSpins = 2;
  static constexpr uint64_t kSpins = 5000;  // 0.2 ms on shared memory, 2 ms on messages
  static constexpr uint64_t kLooksPerMeasurement = 64;

  bool wait_longer();
  void measure(Core::Time now);
  void start(Core::Time now);
  void sleep(Core::Time now, Core::Duration duration, Core::Duration waited);
  void yield(Core::Time now);

  Core& core_;
  Communicator* messages_;
  std::chrono::milliseconds timeout_;
  Lifeline* lifeline_;
  Contention& contention_;
  uint64_t spins_;
  uint64_t looks_ = 0, yields_ = 0;
  bool waits_ = false, measures_ = false;
  Core::Time start_{};                      // of the first call that did not spin
  Core::Time measured_since_{}, looked_{};  // looked_: the last poll
  Core::Duration used_{0};                  // until measured_since_
  Core::Duration given_away_{0};            // since then
};

}  // namespace dlflow::runtime
