#pragma once

#include <functional>

#include "runtime/collectives/rules.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// One size measured: what is fastest over all ranks and how long each way took.
struct TuneLine {
  struct Time {
    std::string way;  ///< "ring", "hierarchical+ring"
    double seconds;
  };
  size_t bytes;
  std::vector<Time> times;
  size_t fastest;  ///< index
};

/// Measures every way that these ranks can sum fp32 numbers, from 64 bytes to `largest_bytes`, for
/// about `seconds_each` per way and size, and returns the rules of the fastest (FastestWays).
/// Collective; the same rules on every rank. Throws Error{InvalidInput} if nothing can be measured.
RuleSet tune(Communicator& comm, size_t largest_bytes, double seconds_each,
             const std::function<void(const TuneLine&)>& measured);

}  // namespace dlflow::runtime
