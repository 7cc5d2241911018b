#pragma once

#include <cstdint>

namespace dlflow::runtime {

/// The course of the learning rate over a training run: warm-up, then constant or down a cosine.
struct Schedule {
  enum class Course { Constant, Cosine };

  Course course = Course::Constant;
  double peak_rate = 0.1;
  uint64_t warmup_steps = 0;
  uint64_t total_steps = 1;  ///< warm-up included; a constant rate does not need it

  bool operator==(const Schedule&) const = default;
};

/// The scaling of a learning rate to another batch size.
enum class RateScaling {
  None,
  Linear,  ///< Goyal et al., arXiv 1706.02677, section 2.1
  Sqrt,    ///< Krizhevsky, arXiv 1404.5997, section 5; You et al., arXiv 1904.00962, with LAMB
};

/// `rate`, for a batch that is `times` as large.
double scaled_rate(double rate, RateScaling scaling, double times);

/// The rate of step `step` (the first is 0); a pure function, so that a resumed run goes on with
/// it. Warm-up rises linearly and reaches the peak with its last step: peak * (step + 1) / warmup.
/// The cosine falls from the peak in the first step after it to 0 at total_steps, and stays there.
/// Source: Goyal et al., arXiv 1706.02677, section 2.2; Loshchilov and Hutter, arXiv 1608.03983.
double learning_rate(const Schedule& schedule, uint64_t step);

}  // namespace dlflow::runtime
