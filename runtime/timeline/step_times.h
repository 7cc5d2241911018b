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
  /// Of each step, in order.
  std::vector<double> steps;

  /// Over all steps, by the name of the span: the time in computation, without the spans within.
  std::map<std::string, double> computation;
  double waiting = 0;  ///< likewise, in all spans of Row::Waiting
  double other = 0;    ///< the rest: the sum of all is that of `steps`

  /// Of each sum of a step, in the order in which they start: from the step's begin to the sum's.
  /// The median of all steps that have as many sums as the first.
  std::vector<double> ready;
};

/// `spans` of one rank. Spans of Row::Computation and Row::Waiting are nested in each other and in
/// a step; those outside of steps do not count.
StepTimes step_times(std::span<const Timeline::Span> spans);

/// The quantile `part`, from 0 to 1, of `values`, of which there must be one.
double quantile(std::span<const double> values, double part);

}  // namespace dlflow::runtime
