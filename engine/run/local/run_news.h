#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/plan/plan.h"
#include "engine/run/jobs.h"

namespace dlflow {

/// The news of a run on this machine, for those whom `notify:` names: each failure as it comes, and
/// the end. Both of what is given must outlive it.
class RunNews {
 public:
  RunNews(const Plan& plan, const Jobs& jobs) : plan_(plan), jobs_(jobs) {}

  /// `job` has failed, and is not tried again. The first one is also why the run has failed.
  void failed(uint32_t job, const std::string& reason);

  /// The run has ended, and nobody goes on with it.
  void ended(RunState state) const;

 private:
  const Plan& plan_;
  const Jobs& jobs_;
  std::optional<JobEvent> failure_;  // the first
};

}  // namespace dlflow
