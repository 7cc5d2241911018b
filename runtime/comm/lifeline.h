#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "runtime/comm/call_log.h"

namespace dlflow::runtime {

/// The reason why all ranks end.
enum class Fault : uint8_t {
  Failed,   ///< a rank threw
  Differs,  ///< ranks made different collective calls
  Lost,     ///< a rank's process is gone
  Stalled,  ///< a rank that others wait for makes no progress
};

/// Thrown by every rank once one of them cannot go on; the message names ranks and nodes.
class WatchError : public Error {
 public:
  WatchError(Fault fault, Errc code, const std::string& message)
      : Error(code, message), fault_(fault) {}
  Fault fault() const noexcept { return fault_; }

 private:
  Fault fault_;
};

/// The state that a rank's thread shares with its watch thread (runtime/watch/watch.h).
class Lifeline {
 public:
  /// Records a collective call of the rank's thread. Throws the raised WatchError, if any.
  void submit(const Call& call) {
    check();
    calls_.add(call);
  }

  /// Throws the raised WatchError, if any. Costs a load.
  void check() const {
    if (raised()) throw error_;
  }

  /// The rank's thread begins or stops waiting for a peer.
  void begin_wait() { waits_.store(true, std::memory_order_relaxed); }
  void end_wait() {
    waits_.store(false, std::memory_order_relaxed);
    num_waits_.fetch_add(1, std::memory_order_relaxed);
  }

  /// Marks a long activity of the rank's thread, such as "saves a checkpoint" (a literal; null ends
  /// it): the rank does not count as stalled meanwhile. With `arrivals`, this holds only while that
  /// counter increases; the counter outlives the watch.
  void set_activity(const char* activity, const std::atomic<uint64_t>* arrivals = nullptr) {
    arrivals_.store(arrivals, std::memory_order_relaxed);
    activity_.store(activity, std::memory_order_relaxed);
  }

  const CallLog& calls() const { return calls_; }
  bool waits() const { return waits_.load(std::memory_order_relaxed); }
  uint64_t num_waits() const { return num_waits_.load(std::memory_order_relaxed); }
  const char* activity() const { return activity_.load(std::memory_order_relaxed); }
  const std::atomic<uint64_t>* arrivals() const {
    return arrivals_.load(std::memory_order_relaxed);
  }

  /// Ends the rank's current or next wait. Called by one thread; the first error counts.
  void raise(const WatchError& error) {
    if (raised()) return;
    error_ = error;
    raised_.store(true, std::memory_order_release);
  }
  bool raised() const { return raised_.load(std::memory_order_acquire); }

 private:
  CallLog calls_;
  std::atomic<bool> waits_{false};
  std::atomic<uint64_t> num_waits_{0};
  std::atomic<const char*> activity_{nullptr};
  std::atomic<const std::atomic<uint64_t>*> arrivals_{nullptr};
  std::atomic<bool> raised_{false};
  WatchError error_{Fault::Failed, Errc::Unavailable, ""};  // constant once raised
};

}  // namespace dlflow::runtime
