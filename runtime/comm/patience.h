#pragma once

#include <chrono>
#include <cstdint>

#include "runtime/comm/communicator.h"
#include "runtime/comm/core.h"

namespace dlflow::runtime {

/// Waiting for something that a peer on another core does soon.
///
/// A core that is given away comes back late, and a core that is kept may be the one that the peer
/// needs. So the rank spins, for as long as answers usually take, and then yields at every look.
/// There is hardly a spin where the node has more ranks than cores.
///
/// That does not reach ranks of another node or container, or other programs, on the same core: the
/// kernel takes turns between control groups and sessions first, for milliseconds each. So the rank
/// watches what it loses: time that passes without being its own processor time, and yields that
/// return late. Once there was such a loss (Contention), it soon stops to spin, yields a few times,
/// which is all that ranks of one mpirun need, and then sleeps for an eighth of the time that it
/// has waited, so that what comes is late by no more than that.
///
/// A rank that loses nothing may wait for one that does: after a millisecond it sleeps for a 32nd
/// of the time, and the kernel moves to its core who waits for another.
///
///   for (Patience patience(comm); !done();) if (!patience.wait()) throw_no_answer(...);
class Patience {
 public:
  /// Of the rank that waits, which outlives this; it may be watched over (runtime/watch/watch.h).
  /// `messages`: what it waits for is a message of that communicator, and nothing else.
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

  /// As if this were new: something has come.
  void restart() {
    if (lifeline_ && waits_) lifeline_->end_wait();
    waits_ = measures_ = false;
    looks_ = 0;
    yields_ = 0;
  }

  /// Lets a moment pass. False once the timeout has passed since the first call that did not spin.
  /// Throws the WatchError that says why the peer will not come.
  bool wait() {
    if (++looks_ < spins_ && looks_ % kLooksPerMeasurement != 0) {
      __builtin_ia32_pause();
      return true;
    }
    return wait_longer();
  }

 private:
  /// With 3 to 16 ranks on 2 cores, 50 (2 us) take up to twice as long for a few bytes, and as long
  /// from 64 KiB on.
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
  Core::Time start_{};                      // of what is no spin
  Core::Time measured_since_{}, looked_{};  // looked_: last
  Core::Duration used_{0};                  // by measured_since_
  Core::Duration given_away_{0};            // since then
};

}  // namespace dlflow::runtime
