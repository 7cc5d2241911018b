#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/report/headline.h"
#include "engine/report/style.h"
#include "engine/store/run_status.h"

/// The parameters of jobs and their metrics, as `dlflow results` prints them.
namespace dlflow {

struct Result {
  std::string run;
  std::string workflow;  ///< its name
  std::string step;
  std::string job;  ///< "train[lr=0.1]"
  JobState state = JobState::Planned;
  Json params = Json::object();   ///< of the run, by name
  Json matrix = Json::object();   ///< of the job, by axis
  Json metrics = Json::object();  ///< name -> number
  std::optional<Goal> goal =
      {};  ///< what makes it better than others of its step, if that is known
  std::vector<std::string> named = {};  ///< metrics that a gate or a selection names
};

/// The best of those of one step that have the metric of their goal; null if fewer than two have.
const Result* best_of(std::span<const Result> results);

/// The metrics of a job, and beside them what the planner predicted and what was measured of it:
/// predicted_step_s and step_s, predicted_time_s and time_s.
Json metrics_of(const Plan& plan, size_t job, const JobRow& row);

/// In plan order: the jobs of `step`, or of all steps that have metrics if it is empty. Bytes that
/// were staged are no result. `status` is that of the run whose plan is given.
std::vector<Result> results_of(const Plan& plan, const RunStatus& status, const std::string& step);

enum class Order { BestFirst, WorstFirst };

/// By a metric, the best first as largest_first() says; jobs without it come last, and equal ones
/// stay in their order. Throws Error{InvalidInput} with a suggestion if no result has that metric.
void sort_results(std::vector<Result>& results, const std::string& metric, Order order);

/// As the goal of a result says, or else largest_is_best().
bool largest_first(std::span<const Result> results, const std::string& metric);

/// A table per step. Of parameters it shows those that differ between the runs; of metrics as many
/// as fit, `first` before the others, which are in the order of in_metric_order().
std::string results_table(std::span<const Result> results, const std::string& first,
                          const Style& style);

/// RFC 4180, a line per job: run, step, job, state, then params.NAME, matrix.AXIS, metrics.NAME.
std::string results_csv(std::span<const Result> results);

Json to_json(const Result& result);

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
  Json matrix;      ///< likewise
  std::map<std::string, Estimate> metrics;
};

/// In the order of their first appearance. Jobs without metrics are left out, and values that are
/// no finite numbers.
std::vector<ComparedJobs> compare(std::span<const Result> results);

}  // namespace dlflow
