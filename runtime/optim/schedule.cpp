#include "runtime/optim/schedule.h"

#include <algorithm>
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

namespace {

/// One cycle starts at this fraction of its peak, like PyTorch's OneCycleLR.
constexpr double kStartOfCycle = 1.0 / 25;

/// Goes from `first` to `last` along half a cosine.
double cosine(double first, double last, double progress) {
  return last + (first - last) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

double warm_up(const Schedule& schedule, uint64_t step) {
  const double progress = double(step + 1) / double(schedule.warmup_steps);
  if (schedule.course != Schedule::Course::OneCycle) return schedule.peak_rate * progress;
  return cosine(schedule.peak_rate * kStartOfCycle, schedule.peak_rate, progress);
}

/// Progress after the warm-up, from 0 to 1.
double progress_of(const Schedule& schedule, uint64_t step) {
  if (step >= schedule.total_steps) return 1;
  return double(step - schedule.warmup_steps) /
         double(schedule.total_steps - schedule.warmup_steps);
}

double course(const Schedule& s, uint64_t step) {
  switch (s.course) {
    case Schedule::Course::Constant:
      return s.peak_rate;
    case Schedule::Course::Cosine:
    case Schedule::Course::OneCycle:
      return cosine(s.peak_rate, s.minimum_rate, progress_of(s, step));
    case Schedule::Course::Polynomial:
      return s.minimum_rate +
             (s.peak_rate - s.minimum_rate) * std::pow(1 - progress_of(s, step), s.power);
    case Schedule::Course::Steps: {
      const auto passed = std::ranges::count_if(s.drops, [&](uint64_t at) { return at <= step; });
      return s.peak_rate * std::pow(s.factor, double(passed));
    }
    case Schedule::Course::InverseSqrt:
      return s.peak_rate *
             std::sqrt(double(std::max<uint64_t>(s.warmup_steps, 1)) / double(step + 1));
  }
  DLFLOW_CHECK(false);
}

}  // namespace

double learning_rate(const Schedule& schedule, uint64_t step) {
  if (step < schedule.warmup_steps) return warm_up(schedule, step);
  return std::max(course(schedule, step), schedule.minimum_rate);
}

}  // namespace dlflow::runtime
