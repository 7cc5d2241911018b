#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace dlflow::runtime {

/// Bounded staleness: no worker begins a step while it is more than `bound` steps ahead of the
/// slowest. With 0 all wait for each other in every step; without a bound none waits.
/// Source: stale synchronous parallel, Ho et al., NIPS 2013.
class Staleness {
 public:
  Staleness(size_t num_workers, std::optional<uint64_t> bound)
      : done_(num_workers), bound_(bound.value_or(UINT64_MAX)) {}

  /// All workers have taken `done` steps.
  void begin(uint64_t done) { std::ranges::fill(done_, done); }

  /// `worker` has taken another step.
  void step_of(size_t worker) { ++done_.at(worker); }

  /// The first if several are equal.
  size_t slowest_worker() const { return size_t(std::ranges::min_element(done_) - done_.begin()); }
  uint64_t slowest() const { return done_[slowest_worker()]; }
  uint64_t fastest() const { return std::ranges::max(done_); }

  /// Whether `worker` may begin its next step.
  bool may_go_on(size_t worker) const { return done_.at(worker) - slowest() <= bound_; }

 private:
  std::vector<uint64_t> done_;  // by each worker
  uint64_t bound_;              // the maximum means no bound
};

}  // namespace dlflow::runtime
