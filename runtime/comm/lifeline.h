#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "runtime/comm/call_log.h"

namespace dlflow::runtime {

/// Why all ranks end.
enum class Fault : uint8_t {
  Failed,   ///< one of them threw
  Differs,  ///< they made different collective calls
  Lost,     ///< one's process is gone
  Stalled,  ///< one that others wait for does nothing
};

/// The error that every rank throws once one of them cannot go on; the message names ranks and
/// nodes.
class WatchError : public Error {
 public:
  WatchError(Fault fault, Errc code, const std::string& message)
      : Error(code, message), fault_(fault) {}
  Fault fault() const noexcept { return fault_; }

 private:
  Fault fault_;
};

/// The state that a rank's thread shares with the thread that watches over it
/// (runtime/watch/watch.h).
class Lifeline {
 public:
  /// The rank's thread comes to a collective call. Throws what was raised.
  void submit(const Call& call) {
    check();
    calls_.add(call);
  }

  /// Throws the WatchError that was raised, if any. Costs a load.
  void check() const {
    if (raised()) throw error_;
  }

  /// The rank's thread begins or ends to wait for a peer.
  void begin_wait() { waits_.store(true, std::memory_order_relaxed); }
  void end_wait() {
    waits_.store(false, std::memory_order_relaxed);
    num_waits_.fetch_add(1, std::memory_order_relaxed);
  }

  /// What the rank's thread does for as long as it takes, however long others wait for it: "saves a
  /// checkpoint". A literal; null: nothing such. With `arrivals` it waits for what they count, and
  /// is to be left alone only while they go on; they outlive who watches.
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

  /// Ends what the rank's thread waits for, now or later. For one thread; the first error counts.
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
  WatchError error_{Fault::Failed, Errc::Unavailable, ""};  // not written again once raised
};

}  // namespace dlflow::runtime
