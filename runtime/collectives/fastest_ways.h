#pragma once

#include <cstddef>
#include <span>

#include "runtime/collectives/rules.h"

namespace dlflow::runtime {

/// A way to sum that was measured, with the seconds of its calls.
struct MeasuredWay {
  Algorithm algorithm;
  double lower_quartile;  ///< what else runs on a node disturbs a part of all calls
  double median;
};

/// Rules that take the fastest algorithm for each size. Sizes between two that were measured belong
/// to the larger. A way that is at most 5 % faster does not replace the one of the size before:
/// rules should not say what is noise.
class FastestWays {
 public:
  /// `slices` of each size that is measured are what the algorithms sum.
  explicit FastestWays(size_t slices = 1) : slices_(slices) {}

  /// The next larger size; returns the index of the way that the rules take for it. There is at
  /// least one way.
  size_t add(size_t bytes, std::span<const MeasuredWay> ways);

  const Rules& rules() const { return rules_; }

 private:
  size_t slices_;
  Rules rules_;
  size_t last_bytes_ = 0;
};

}  // namespace dlflow::runtime
