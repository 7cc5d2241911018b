#pragma once

#include <chrono>
#include <deque>
#include <future>
#include <string>

#include "engine/slurm/tools.h"

namespace dlflow {

/// Some sbatch calls at a time: most of a call is waiting and starting a program, so that four at
/// once get through the same controller about twice as fast as one after another. More would gain
/// little, and the controller is there for others, too.
class Submissions {
 public:
  static constexpr size_t kAtOnce = 4;

  /// `tools` must outlive it. From the start of one call to that of the next is at least
  /// `interval`.
  Submissions(const SlurmTools& tools, std::chrono::seconds interval)
      : tools_(tools), interval_(interval) {}

  bool is_full() const { return calls_.size() == kAtOnce; }
  bool empty() const { return calls_.empty(); }

  /// Starts sbatch with `script`, once its time has come; it must not be full.
  void begin(std::string script);

  /// Waits for the call that began first. Throws as SlurmTools::submit.
  SbatchAnswer finish_first();

 private:
  const SlurmTools& tools_;
  std::chrono::seconds interval_;
  std::chrono::steady_clock::time_point next_;  // may begin
  std::deque<std::future<SbatchAnswer>> calls_;
};

}  // namespace dlflow
