#pragma once

#include <functional>

#include "runtime/collectives/rules.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// One measured size: the fastest way over all ranks and the time of each way.
struct TuneLine {
  struct Time {
    std::string way;  ///< "ring", "hierarchical+ring"
    double seconds;
  };
  size_t bytes;
  std::vector<Time> times;
  size_t fastest;  ///< index of the fastest way
};

/// Measures every way in which these ranks can sum fp32 numbers, from 64 bytes to `largest_bytes`,
/// for about `seconds_each` per way and size, and returns the rules of the fastest (FastestWays).
/// Collective; the same rules on every rank. Throws Error{InvalidInput} if nothing can be measured.
RuleSet tune(Communicator& comm, size_t largest_bytes, double seconds_each,
             const std::function<void(const TuneLine&)>& measured);

}  // namespace dlflow::runtime
