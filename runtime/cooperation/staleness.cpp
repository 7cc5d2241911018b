#include "runtime/cooperation/staleness.h"

#include <algorithm>

namespace dlflow::runtime {

Staleness::Staleness(size_t num_workers, std::optional<uint64_t> bound)
    : done_(num_workers), bound_(bound.value_or(UINT64_MAX)) {}

void Staleness::begin(uint64_t done) { std::ranges::fill(done_, done); }

void Staleness::step_of(size_t worker) { ++done_.at(worker); }

size_t Staleness::slowest_worker() const {
  return size_t(std::ranges::min_element(done_) - done_.begin());
}

uint64_t Staleness::fastest() const { return std::ranges::max(done_); }

bool Staleness::may_go_on(size_t worker) const { return done_.at(worker) - slowest() <= bound_; }

}  // namespace dlflow::runtime
