#pragma once

#include <chrono>
#include <deque>
#include <future>
#include <thread>
#include <utility>

#include "base/error.h"
#include "engine/batch/batch_system.h"

namespace dlflow {

/// Several submissions at a time: most of a call is waiting and starting a program, so that four at
/// once get through the same SLURM controller about twice as fast as one after another. More would
/// gain little, and the controller serves others, too.
class Submissions {
 public:
  /// `system` must outlive it. At least `interval` passes between the starts of two calls.
  Submissions(const BatchSystem& system, std::chrono::seconds interval)
      : system_(system), interval_(interval) {}

  bool is_full() const { return calls_.size() >= system_.submissions_at_once(); }
  bool empty() const { return calls_.empty(); }

  /// Begins `call` once its time has come; it must not be full.
  void begin(SubmitCall call) {
    DLFLOW_CHECK(!is_full());
    std::this_thread::sleep_until(next_);
    next_ = std::chrono::steady_clock::now() + interval_;
    const bool alone = system_.submissions_at_once() == 1;
    const auto policy = alone ? std::launch::deferred : std::launch::async;
    calls_.push_back(std::async(policy, std::move(call.submit)));
  }

  /// Waits for the call that began first. Throws like SubmitCall::submit.
  SubmitAnswer finish_first() {
    DLFLOW_CHECK(!empty());
    std::future<SubmitAnswer> call = std::move(calls_.front());
    calls_.pop_front();
    return call.get();
  }

 private:
  const BatchSystem& system_;
  const std::chrono::seconds interval_;
  std::chrono::steady_clock::time_point next_;  // may begin
  std::deque<std::future<SubmitAnswer>> calls_;
};

}  // namespace dlflow
