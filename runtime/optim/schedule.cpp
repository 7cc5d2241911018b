#include "runtime/optim/schedule.h"

#include <cmath>
#include <numbers>

namespace dlflow::runtime {

double learning_rate(const Schedule& schedule, uint64_t step) {
  if (step < schedule.warmup_steps) {
    return schedule.peak_rate * double(step + 1) / double(schedule.warmup_steps);
  }
  if (schedule.shape == Schedule::Shape::Constant) return schedule.peak_rate;
  if (step >= schedule.total_steps) return 0;
  const double progress =
      double(step - schedule.warmup_steps) / double(schedule.total_steps - schedule.warmup_steps);
  return schedule.peak_rate * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace dlflow::runtime
