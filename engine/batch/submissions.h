#pragma once

#include <chrono>
#include <deque>
#include <future>

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
  void begin(SubmitCall call);

  /// Waits for the call that began first. Throws like SubmitCall::submit.
  SubmitAnswer finish_first();

 private:
  const BatchSystem& system_;
  const std::chrono::seconds interval_;
  std::chrono::steady_clock::time_point next_;  // may begin
  std::deque<std::future<SubmitAnswer>> calls_;
};

}  // namespace dlflow
