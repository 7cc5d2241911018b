#include "engine/report/comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/not_finite.h"

namespace dlflow {
namespace {

/// The 0.975 quantile of Student's t with so many degrees of freedom. Above 30 the expansion of
/// Abramowitz and Stegun 26.7.5, which is right to 0.001 there.
double t_quantile(size_t freedom) {
  constexpr std::array kTable = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                 2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                                 2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                                 2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
  if (freedom <= kTable.size()) return kTable[freedom - 1];
  const double z = 1.959964;
  const double n = double(freedom);
  return z + (z * z * z + z) / (4 * n) +
         (5 * std::pow(z, 5) + 16 * z * z * z + 3 * z) / (96 * n * n);
}

std::string name_without_repeat(const Result& result) {
  Json matrix = result.matrix;
  matrix.erase(kRepeatAxis);
  const std::string label = element_label(matrix);
  return result.step + (label.empty() ? "" : "[" + label + "]");
}

}  // namespace

Estimate estimate_of(std::vector<double> values) {
  Estimate estimate;
  const double count = double(values.size());
  estimate.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() > 1) {
    double squares = 0;
    for (const double value : values) squares += (value - estimate.mean) * (value - estimate.mean);
    const double half = t_quantile(values.size() - 1) * std::sqrt(squares / (count - 1) / count);
    estimate.interval = {estimate.mean - half, estimate.mean + half};
  }
  estimate.values = std::move(values);
  return estimate;
}

std::vector<ComparedJobs> compare(std::span<const Result> results) {
  struct Group {
    std::string run, job;
    std::map<std::string, std::vector<double>> values;
  };
  std::vector<Group> groups;
  std::map<std::pair<std::string, std::string>, size_t> places;
  for (const Result& result : results) {
    std::string job = name_without_repeat(result);
    const auto [place, is_new] = places.try_emplace({result.run, job}, groups.size());
    if (is_new) groups.push_back({result.run, std::move(job), {}});
    for (const auto& [name, value] : result.metrics.items()) {
      if (const auto number = comparable(value)) {
        groups[place->second].values[name].push_back(*number);
      }
    }
  }
  std::vector<ComparedJobs> compared;
  for (Group& group : groups) {
    if (group.values.empty()) continue;
    ComparedJobs jobs{.run = group.run, .job = group.job, .metrics = {}};
    for (auto& [name, values] : group.values) {
      jobs.metrics[name] = estimate_of(std::move(values));
    }
    compared.push_back(std::move(jobs));
  }
  return compared;
}

}  // namespace dlflow
