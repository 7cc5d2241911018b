#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/plan/job.h"
#include "engine/plan/plan.h"
#include "engine/store/run_status.h"

namespace dlflow {

/// One job as the engine sees it.
struct JobProgress {
  JobState state = JobState::Planned;
  int attempt = 0;  ///< the latest; 0: none yet
  int pass = 1;     ///< of that attempt: the one that runs, or the one to start
  int tries = 0;    ///< attempts since someone asked for it, what retries are counted by
  std::optional<int> exit = {};  ///< how the latest ended, where that is known
  uint32_t unfinished_parents = 0;
  bool lacks_input = false;  ///< a parent whose outputs it uses was skipped
};

/// The jobs of a run while an engine is at work on it, and what the end of one means to others.
/// Nothing here looks at all jobs for an event of one. `plan` must outlive it.
class Jobs {
 public:
  explicit Jobs(const Plan& plan);

  const JobProgress& operator[](uint32_t job) const { return jobs_[job]; }
  JobProgress& operator[](uint32_t job) { return jobs_[job]; }
  uint32_t size() const { return uint32_t(jobs_.size()); }

  /// Computes what follows from states that were put in by hand.
  void count_unfinished_parents();

  /// `job` succeeded, was cached or skipped: the jobs that now wait for nothing more.
  std::vector<uint32_t> release_children(uint32_t job);

  /// `job` will not succeed: blocks the planned jobs that wait for it, directly or not, and returns
  /// them in plan order.
  std::vector<uint32_t> block_descendants(uint32_t job);

  /// The state of a run whose jobs are in these states and on which no engine works any more.
  RunState run_state() const;

 private:
  bool uses_outputs(uint32_t child, uint32_t parent) const;

  const Plan& plan_;
  std::vector<JobProgress> jobs_;
  std::set<std::pair<uint32_t, uint32_t>> uses_;  // (child, parent): steps with a reference
};

}  // namespace dlflow
