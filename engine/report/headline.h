#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/store/run_status.h"

/// The most important number of a run, and the best job of a sweep.
namespace dlflow {

struct UsualMetric {
  std::string_view name;
  bool largest;  ///< whether larger values are better
};

/// The metrics that reports show and compare if no gate and no selection names one. The first that
/// a result has is used.
inline constexpr std::array<UsualMetric, 3> kUsualMetrics{
    {{"accuracy", true}, {"iou", true}, {"loss", false}}};

/// Sorts `names`: first those in `named`, which a gate or a selection uses, in their order; then
/// the usual ones, other scores and losses, the program's own metrics, times, rates and amounts of
/// work, and last the metrics of single classes. Names of one kind keep their order.
std::vector<std::string> in_metric_order(std::vector<std::string> names,
                                         std::span<const std::string> named = {});

/// A step's contribution to the headline.
struct StepNumbers {
  std::vector<Requirement> require;  ///< a gate
  std::string selects;     ///< the metric by which a `checkpoint` step selects; may be empty
  bool evaluates = false;  ///< its kind produces only metrics
};

/// By the name of the step.
using NumbersByStep = std::map<std::string, StepNumbers>;

NumbersByStep numbers_of(const Workflow& workflow);

/// "accuracy 0.907 (required >= 0.88)". Uses the last job that passed a gate, otherwise the last
/// that was selected, otherwise the last evaluation, otherwise the last job with a metric; for
/// several jobs of that step, the best one and its name. Empty if no job has a metric.
std::string headline(const RunStatus& status, const NumbersByStep& numbers);

/// The metric by which one job of a step is better than another.
struct Goal {
  std::string metric;
  bool largest = true;
  bool operator==(const Goal&) const = default;
};

/// Whether the largest value of a metric is the best, judged by its name: false for losses, errors,
/// costs, times and amounts of memory or energy.
bool largest_is_best(std::string_view metric);

/// The metrics of `step` by which other steps select, and those of its own gate.
std::vector<std::string> named_metrics(const Workflow& workflow, const std::string& step);

/// The goal by which another step selects among the results of `step` (`select`, `max_by`),
/// otherwise that of its own gate, otherwise the largest accuracy or the smallest loss, whichever
/// `metrics` has. Nothing if none of these applies.
std::optional<Goal> goal_of(const Workflow& workflow, const std::string& step, const Json& metrics);

}  // namespace dlflow
