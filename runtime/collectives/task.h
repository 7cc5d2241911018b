#pragma once

#include <coroutine>
#include <exception>
#include <utility>

#include "runtime/comm/communicator.h"

/// Collectives as coroutines: each algorithm is written as straight-line code, which run() drives
/// to its end, or a rank polls while it computes (Allreduce).
///
///   Task pass_round(Link link, std::span<std::byte> bytes) {
///     co_await link.exchange(bytes, next, scratch, previous);   // others run meanwhile
///     ...
///   }
namespace dlflow::runtime {

/// The result of polling a wait.
enum class Progress {
  None,  ///< not over, and nothing has moved
  Some,  ///< not over, but something has moved: a peer is alive
  Done,
};

/// Something that a collective waits for. `co_await wait` goes on once it is Done.
class Wait {
 public:
  virtual ~Wait() = default;

  /// Checks without waiting. Throws Error if the event cannot happen any more.
  virtual Progress poll() = 0;

  /// The rank that this waits for.
  virtual int peer() const = 0;

  bool await_ready() { return poll() == Progress::Done; }
  template <typename Promise>
  void await_suspend(std::coroutine_handle<Promise> coroutine) {
    coroutine.promise().wait = this;
  }
  void await_resume() const {}
};

/// A running collective. It begins with the first poll(), and is itself a Wait: one collective may
/// consist of others. It owns its arguments; memory that they refer to must outlive it.
class [[nodiscard]] Task final : public Wait {
 public:
  struct promise_type {  // NOLINT(readability-identifier-naming): the standard calls it so
    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { error = std::current_exception(); }

    Wait* wait = nullptr;  // what the coroutine currently waits for, or null
    std::exception_ptr error;
  };

  Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }
  ~Task() override {
    if (coroutine_) coroutine_.destroy();
  }

  Progress poll() override;
  int peer() const override;

 private:
  explicit Task(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}

  std::coroutine_handle<promise_type> coroutine_;
};

/// Drives `wait` to its end. Throws Error{Unavailable} naming the peer if nothing has moved for the
/// communicator's timeout.
void run(Communicator& comm, Wait& wait);
inline void run(Communicator& comm, Task&& task) { run(comm, static_cast<Wait&>(task)); }

/// Lets the poller of the task turn to something more urgent. co_await makes the first poll(), and
/// the second still belongs to the same poll() of the task.
class Pause final : public Wait {
 public:
  Progress poll() override { return ++polls_ <= 2 ? Progress::Some : Progress::Done; }
  int peer() const override { return -1; }

 private:
  int polls_ = 0;
};

/// Waits until `condition` holds; `rank` makes it true.
template <typename Condition>
class Until final : public Wait {
 public:
  Until(int rank, Condition condition) : rank_(rank), condition_(std::move(condition)) {}
  Progress poll() override { return condition_() ? Progress::Done : Progress::None; }
  int peer() const override { return rank_; }

 private:
  int rank_;
  Condition condition_;
};

}  // namespace dlflow::runtime
