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
  JobName job;
  JobState state = JobState::Planned;
  Json params = Json::object();         ///< of the run, by name
  Json matrix = Json::object();         ///< of the job, by axis
  Json metrics = Json::object();        ///< name -> number
  std::optional<Goal> goal = {};        ///< the measure of the best result of its step, if known
  std::vector<std::string> named = {};  ///< metrics that a gate or a selection uses
  std::string directory = "";           ///< of the job that made it; may be empty
};

/// The best result of one step by the metric of their goal; null if fewer than two results have it,
/// or if their goals differ.
const Result* best_of(std::span<const Result> results);

/// Keeps only the first of several results that come from one job, since later runs reused it.
void remove_repeated(std::vector<Result>& results);

/// A job's metrics, together with the planner's predictions and the measured values:
/// predicted_step_s and step_s, predicted_time_s and time_s.
Json metrics_of(const Plan& plan, size_t job, const JobRow& row);

/// The jobs of `step` in plan order; if it is empty, those of all steps with metrics. Staged bytes
/// are not a result. `status` must belong to the run of `plan`.
std::vector<Result> results_of(const Plan& plan, const RunStatus& status, const std::string& step);

enum class Order { BestFirst, WorstFirst };

/// Sorts by a metric, in the direction of largest_first(), and makes it the goal of all results.
/// Jobs without it come last, and ties keep their order. Throws Error{InvalidInput} with a
/// suggestion if no result has that metric.
void sort_results(std::vector<Result>& results, const std::string& metric, Order order);

/// Whether the largest value is the best: by the goal of a result, otherwise by largest_is_best().
bool largest_first(std::span<const Result> results, const std::string& metric);

/// One table per step, with the parameters that differ between the runs and as many metrics as fit:
/// `first`, then the others in the order of in_metric_order().
std::string results_table(std::span<const Result> results, const std::string& first,
                          const Style& style);

/// RFC 4180, a line per job: run, step, job, state, then params.NAME, matrix.AXIS, metrics.NAME.
std::string results_csv(std::span<const Result> results);

Json to_json(const Result& result);

/// One metric over several repeats.
struct Estimate {
  std::vector<double> values;
  double mean = 0;
  /// The 95 % confidence interval of the mean, by Student's t; nothing for one value.
  std::optional<std::pair<double, double>> interval;
};

Estimate estimate_of(std::vector<double> values);

/// Jobs of one run that differ only in `repeat`.
struct ComparedJobs {
  std::string run;
  JobName job;  ///< without the repeat
  Json matrix;  ///< likewise
  std::map<std::string, Estimate> metrics;
};

/// In the order of first appearance. Jobs without metrics and values that are not finite are left
/// out.
std::vector<ComparedJobs> compare(std::span<const Result> results);

}  // namespace dlflow
