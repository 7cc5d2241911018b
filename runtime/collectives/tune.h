#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "runtime/collectives/rules.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// A measured way to sum, with the seconds of its calls.
struct MeasuredWay {
  Algorithm algorithm;
  double lower_quartile;  ///< robust, as other processes on a node disturb some calls
  double median;
};

/// Rules that take the fastest algorithm for each size. Sizes between two measured ones belong to
/// the larger. A way that is at most 5 % faster does not replace that of the size before: rules
/// should not depend on noise.
class FastestWays {
 public:
  /// The algorithms sum a slice, which is 1/`slices` of each measured size.
  explicit FastestWays(size_t slices = 1) : slices_(slices) {}

  /// Adds the next larger size; returns the index of the way that the rules use for it. `ways` must
  /// not be empty.
  size_t add(size_t bytes, std::span<const MeasuredWay> ways);

  const Rules& rules() const { return rules_; }

 private:
  size_t slices_;
  Rules rules_;
  size_t last_bytes_ = 0;
};

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
