#include "runtime/optim/schedule.h"

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace dlflow::runtime {

double scaled_rate(double rate, RateScaling scaling, double times) {
  switch (scaling) {
    case RateScaling::None:
      return rate;
    case RateScaling::Linear:
      return rate * times;
    case RateScaling::Sqrt:
      return rate * std::sqrt(times);
  }
  DLFLOW_CHECK(false);
}

double learning_rate(const Schedule& schedule, uint64_t step) {
  if (step < schedule.warmup_steps) {
    return schedule.peak_rate * double(step + 1) / double(schedule.warmup_steps);
  }
  if (schedule.course == Schedule::Course::Constant) return schedule.peak_rate;
  if (step >= schedule.total_steps) return 0;
  const double progress =
      double(step - schedule.warmup_steps) / double(schedule.total_steps - schedule.warmup_steps);
  return schedule.peak_rate * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace dlflow::runtime
