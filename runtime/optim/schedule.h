#pragma once

#include <cstdint>
#include <vector>

namespace dlflow::runtime {

/// The learning rate over a training run: a warm-up, then one of these courses.
struct Schedule {
  enum class Course {
    Constant,
    Cosine,       ///< down to the minimum
    Polynomial,   ///< down to the minimum, as (1 - progress) to a power
    Steps,        ///< multiplied by a factor at the end of some epochs
    OneCycle,     ///< up from a 25th of the peak along a cosine, then down to the minimum
    InverseSqrt,  ///< peak * sqrt(last step of the warm-up / step)
  };

  Course course = Course::Constant;
  double peak_rate = 0.1;
  uint64_t warmup_steps = 0;
  uint64_t total_steps = 1;  ///< including the warm-up; unused by Constant, Steps and InverseSqrt
  double minimum_rate = 0;   ///< lower limit after the warm-up
  double power = 1;          ///< of Polynomial
  double factor = 0.1;       ///< of Steps
  std::vector<uint64_t> drops = {};  ///< of Steps: the first step with each new rate

  bool operator==(const Schedule&) const = default;
};

/// How a learning rate is scaled to another batch size.
enum class RateScaling {
  None,
  Linear,  ///< Goyal et al., arXiv 1706.02677, section 2.1
  Sqrt,    ///< Krizhevsky, arXiv 1404.5997, section 5; You et al., arXiv 1904.00962, with LAMB
};

/// `rate`, scaled for a batch `times` as large.
double scaled_rate(double rate, RateScaling scaling, double times);

/// The rate of step `step` (the first is 0); a pure function, so that a resumed run continues with
/// it. The warm-up rises linearly and reaches the peak in its last step: peak * (step + 1) /
/// warmup. Cosine and polynomial fall from the peak, in the first step after it, to the minimum at
/// total_steps, and stay there. Source: Goyal et al., arXiv 1706.02677, section 2.2; Loshchilov and
/// Hutter, arXiv 1608.03983; Smith and Topin, arXiv 1708.07120 (one cycle); Vaswani et al., arXiv
/// 1706.03762, section 5.3 (inverse square root).
double learning_rate(const Schedule& schedule, uint64_t step);

}  // namespace dlflow::runtime
