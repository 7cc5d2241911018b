#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/timeline/timeline.h"

namespace dlflow::runtime {

/// The times of a rank's steps, from its timeline, in seconds.
struct StepTimes {
  std::vector<double> steps;  ///< in order

  /// Over all steps, by the name of the span: the time in computation, without the spans within.
  std::map<std::string, double> computation;
  double waiting = 0;  ///< likewise of all spans of Row::Waiting
  double other = 0;    ///< the rest: the sum of all is that of `steps`
};

/// `spans` of one rank. Spans of Row::Computation and Row::Waiting are nested in each other and in
/// a step; those outside of steps do not count.
StepTimes step_times(std::span<const Timeline::Span> spans);

/// The quantile `part`, from 0 to 1, of `values`, which must not be empty.
double quantile(std::span<const double> values, double part);

}  // namespace dlflow::runtime
