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

/// The numbers of works that are done, for one thread that completes futures.
class DoneQueue {
 public:
  void push(uint64_t id);

  /// The oldest one; nothing if none comes within `timeout`.
  std::optional<uint64_t> pop(std::chrono::milliseconds timeout);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<uint64_t> ids_;
};

class Group;

/// An operation that was started, for whoever waits for it. Any thread may call it.
class Work {
 public:
  struct Failure {
    Errc code;
    std::string message;
  };

  /// `group` outlives it, or ends it.
  explicit Work(Group* group) : group_(group) {}

  /// Whoever executes it says so, once.
  void succeed() { end({}); }
  void fail(const Failure& failure) { end(failure); }

  /// Of a receive from any rank: where the message came from. Before it is done.
  void set_source(int rank) { source_ = rank; }
  int source() const { return source_; }

  bool is_done() const { return done_.load(std::memory_order_acquire); }

  /// The group that executes it, which expects the caller in its wait_for(); null once it is done.
  Group* expecting_group() const;

  /// Whether it is done within `timeout`; a negative one never passes.
  bool wait(std::chrono::milliseconds timeout);

  /// Of what is done.
  std::optional<Failure> failure() const;

  /// `queue` gets `id` once this is done.
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
