#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/error.h"

namespace dlflow::runtime {

/// The ids of finished works, for one thread that completes futures.
class DoneQueue {
 public:
  void push(uint64_t id);

  /// Removes and returns the oldest id; nothing if none arrives within `timeout`.
  std::optional<uint64_t> pop(std::chrono::milliseconds timeout);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<uint64_t> ids_;
};

class Group;

/// A started operation, for those that wait for it. Any thread may call it.
class Work {
 public:
  struct Failure {
    Errc code;
    std::string message;
  };

  /// `group` must outlive the work or end it.
  explicit Work(Group* group) : group_(group) {}

  /// Called once by the thread that executes it.
  void succeed() { end({}); }
  void fail(const Failure& failure) { end(failure); }

  /// The sender, for a receive from any rank. Must be set before the work is done.
  void set_source(int rank) { source_ = rank; }
  int source() const { return source_; }

  bool is_done() const { return done_.load(std::memory_order_acquire); }

  /// Returns the group that executes it, whose wait_for() must be called next; null once done.
  Group* expecting_group() const;

  /// Returns true if it is done within `timeout`; waits forever if that is negative.
  bool wait(std::chrono::milliseconds timeout);

  /// The failure, if any, of a finished work.
  std::optional<Failure> failure() const;

  /// Pushes `id` to `queue` once this is done.
  void notify(std::shared_ptr<DoneQueue> queue, uint64_t id);

 private:
  void end(std::optional<Failure> failure);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> done_{false};
  std::atomic<int> source_{-1};
  Group* group_;
  std::optional<Failure> failure_;
  std::shared_ptr<DoneQueue> queue_;
  uint64_t id_ = 0;
};

}  // namespace dlflow::runtime
