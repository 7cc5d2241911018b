#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace dlflow::runtime {

/// Bounded staleness: no worker begins a step while it is more than `bound` steps ahead of the
/// slowest. With 0 all wait for each other in every step; without a bound none waits.
/// Source: stale synchronous parallel, Ho et al., NIPS 2013.
class Staleness {
 public:
  Staleness(size_t num_workers, std::optional<uint64_t> bound);

  /// All workers have taken `done` steps.
  void begin(uint64_t done);

  /// `worker` has taken another step.
  void step_of(size_t worker);

  size_t slowest_worker() const;  ///< the first if several are equal
  uint64_t slowest() const { return done_[slowest_worker()]; }
  uint64_t fastest() const;

  /// Whether `worker` may begin its next step.
  bool may_go_on(size_t worker) const;

 private:
  std::vector<uint64_t> done_;  // by each worker
  uint64_t bound_;              // the maximum means no bound
};

}  // namespace dlflow::runtime
