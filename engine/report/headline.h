#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/store/run_status.h"

/// The number that a run is about, and which job of a sweep is the best.
namespace dlflow {

struct UsualMetric {
  std::string_view name;
  bool largest;  ///< the larger, the better
};

/// The metrics that reports show and compare if no gate and no selection names one; the first that
/// a result has counts.
inline constexpr std::array<UsualMetric, 3> kUsualMetrics{
    {{"accuracy", true}, {"iou", true}, {"loss", false}}};

/// `names` with those of `named` first, which a gate or a selection names, in their order; then the
/// usual ones; other scores and losses; what only the program knows; times, rates and amounts of
/// work; last what there is of each class. Names of one kind stay in their order.
std::vector<std::string> in_metric_order(std::vector<std::string> names,
                                         std::span<const std::string> named = {});

/// A step's part in the number that a run is about.
struct StepNumbers {
  std::vector<Requirement> require;  ///< a gate
  std::string selects;               ///< metric that a `checkpoint` step selects by; empty: none
  bool evaluates = false;            ///< its kind leaves numbers and nothing else
};

/// By the name of the step.
using NumbersByStep = std::map<std::string, StepNumbers>;

NumbersByStep numbers_of(const Workflow& workflow);

/// "accuracy 0.907 (required >= 0.88)": of the last job that has passed a gate; else of the last
/// that was selected; else of the last step that was evaluated; else of the last that has any: of
/// several jobs of that step the best, with its name. Empty if no job has.
std::string headline(const RunStatus& status, const NumbersByStep& numbers);

/// The metric by which one job of a step is better than another.
struct Goal {
  std::string metric;
  bool largest = true;
  bool operator==(const Goal&) const = default;
};

/// Whether the largest value of a metric is the best, as its name says: not of losses, errors,
/// times and amounts of memory or energy.
bool largest_is_best(std::string_view metric);

/// The metrics of `step` by which others select, and those of its own gate.
std::vector<std::string> named_metrics(const Workflow& workflow, const std::string& step);

/// As another step chooses among the results of `step`, by `select` or `max_by`, or as its own gate
/// says, or else the
/// largest accuracy, or the smallest loss, whichever `metrics` has. Nothing if nobody can tell.
std::optional<Goal> goal_of(const Workflow& workflow, const std::string& step, const Json& metrics);

}  // namespace dlflow
