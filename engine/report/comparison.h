#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/report/results.h"

/// Runs and jobs side by side, the elements of `repeat:` taken together.
namespace dlflow {

/// One metric over some repeats.
struct Estimate {
  std::vector<double> values;
  double mean = 0;
  /// The 95 % confidence interval of the mean, by Student's t; nothing for one value.
  std::optional<std::pair<double, double>> interval;
};

Estimate estimate_of(std::vector<double> values);

/// Jobs of one run that differ in `repeat` alone.
struct ComparedJobs {
  std::string run;
  std::string job;  ///< "train[lr=0.1]", without the repeat
  std::map<std::string, Estimate> metrics;
};

/// In the order of their first appearance. Jobs without metrics are left out, and values that are
/// no finite numbers.
std::vector<ComparedJobs> compare(std::span<const Result> results);

}  // namespace dlflow
