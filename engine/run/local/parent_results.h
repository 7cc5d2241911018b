#pragma once

#include <cstdint>
#include <map>

#include "engine/decide/jobs.h"
#include "engine/plan/plan.h"

namespace dlflow {

/// The results that finished jobs of a run left for their children.
class ParentResults {
 public:
  /// Both must outlive it.
  ParentResults(const Plan& plan, const Jobs& jobs) : plan_(plan), jobs_(jobs) {}

  /// Forgets all results, since the plan has other jobs now.
  void clear() { results_.clear(); }

  /// Adds the result of `job`, which succeeded with the event `end`.
  void add(uint32_t job, const JobEvent& end);

  /// The result of a finished job. If the job ended before this engine began, its record is read
  /// again.
  ParentResult of(uint32_t job) const;

 private:
  const Plan& plan_;
  const Jobs& jobs_;
  std::map<uint32_t, KnownResult> results_;
};

}  // namespace dlflow
