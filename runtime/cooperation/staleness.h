#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace dlflow::runtime {

/// Bounded staleness, which keeps workers together: none begins a step while it is more than
/// `bound` steps ahead of the slowest. 0: each waits for all in every step; no bound: nobody waits.
/// Source: stale synchronous parallel, Ho et al., NIPS 2013.
class Staleness {
 public:
  Staleness(size_t num_workers, std::optional<uint64_t> bound);

  /// All workers have done so many steps.
  void begin(uint64_t done);

  /// `worker` has done one more.
  void step_of(size_t worker);

  size_t slowest_worker() const;  ///< the first of equals
  uint64_t slowest() const { return done_[slowest_worker()]; }
  uint64_t fastest() const;

  /// Whether `worker` may begin its next step.
  bool may_go_on(size_t worker) const;

 private:
  std::vector<uint64_t> done_;  // by each worker
  uint64_t bound_;              // the greatest there is: none
};

}  // namespace dlflow::runtime
