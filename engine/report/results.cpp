#include "engine/report/results.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/not_finite.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/model/expression_functions.h"
#include "engine/model/step_kinds.h"
#include "engine/report/headline.h"
#include "engine/report/style.h"

namespace dlflow {
namespace {

/// Uses enough digits to distinguish results.
std::string metric_text(const Json& metrics, const std::string& name) {
  const auto value = number_at(metrics, name);
  if (!value) return metrics.contains(name) ? text_of(metrics.at(name)) : "-";  // NaN
  const bool whole = *value == std::floor(*value) || std::abs(*value) >= 1000;
  return print_number(whole ? "%.0f" : "%.4g", *value);
}

std::string value_text(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  return found == object.end() ? "-" : shown_value(*found);
}

using Names = std::vector<std::string>;

/// The keys of `part` of all results, in the order of their first appearance.
Names keys_of(std::span<const Result> results, Json Result::*part) {
  Names names;
  std::set<std::string> seen;
  for (const Result& result : results) {
    for (const auto& [name, value] : (result.*part).items()) {
      if (seen.insert(name).second) names.push_back(name);
    }
  }
  return names;
}

/// The parameters that differ between runs.
Names varying_params(std::span<const Result> results) {
  Names names = keys_of(results, &Result::params);
  std::erase_if(names, [&](const std::string& name) {
    const Json first = results.front().params.value(name, Json());
    return std::ranges::all_of(
        results, [&](const Result& result) { return result.params.value(name, Json()) == first; });
  });
  return names;
}

/// One step's table: a heading, then a line per job.
class ResultTable {
 public:
  explicit ResultTable(std::span<const Result> results)
      : results_(results), rows_(1 + results.size()) {}

  template <typename Text>
  void add(const std::string& heading, Align align, Text text) {
    rows_[0].push_back(escaped(heading));
    for (size_t i = 0; i < results_.size(); ++i) rows_[i + 1].push_back(escaped(text(results_[i])));
    align_.push_back(align);
  }

  void remove_last() {
    for (auto& row : rows_) row.pop_back();
    align_.pop_back();
  }

  size_t width() const { return columns_width(rows_); }
  std::string text() const { return columns(rows_, align_); }

 private:
  std::span<const Result> results_;
  std::vector<Names> rows_;
  std::vector<Align> align_;
};

bool differ(std::span<const Result> results, std::string Result::*part) {
  return std::any_of(results.begin(), results.end(),
                     [&](const Result& result) { return result.*part != results.front().*part; });
}

/// Adds the columns that identify a job.
void add_names(ResultTable& table, std::span<const Result> results) {
  if (differ(results, &Result::run)) {
    table.add("RUN", Align::Left, [](const Result& result) { return result.run; });
  }
  for (const std::string& name : varying_params(results)) {
    table.add(name, Align::Left,
              [&](const Result& result) { return value_text(result.params, name); });
  }
  for (const std::string& axis : keys_of(results, &Result::matrix)) {
    table.add(axis, Align::Left,
              [&](const Result& result) { return value_text(result.matrix, axis); });
  }
  if (!std::all_of(results.begin(), results.end(),
                   [](const Result& result) { return satisfies_dependents(result.state); })) {
    table.add("STATE", Align::Left,
              [](const Result& result) { return std::string(name(result.state)); });
  }
}

/// Adds the metrics that fit and returns how many do not.
size_t add_metrics(ResultTable& table, const Names& metrics, size_t width) {
  for (size_t i = 0; i < metrics.size(); ++i) {
    table.add(metrics[i], Align::Right,
              [&](const Result& result) { return metric_text(result.metrics, metrics[i]); });
    if (i == 0 || table.width() <= width) continue;
    table.remove_last();
    return metrics.size() - i;
  }
  return 0;
}

/// "train: predicted 0.163 s a step and 10.2 s, measured 0.17 s and 10.8 s\n" if both are known.
std::string prediction_line(const Result& result) {
  const auto times = [&](const std::string& prefix) {
    const auto step = number_at(result.metrics, prefix + "step_s");
    const auto all = number_at(result.metrics, prefix + "time_s");
    return (step ? print_number("%.3g s a step", *step) : "") +
           (step && all ? print_number(", %.3g s in all", *all) : "");
  };
  const std::string predicted = times("predicted_"), measured = times("");
  if (predicted.empty() || measured.empty()) return "";
  return escaped(result.job) + ": predicted " + predicted + "; measured " + measured + "\n";
}

std::string step_table(std::span<const Result> results, const std::string& first,
                       const Style& style) {
  Names named = results.front().named;
  if (!first.empty()) named.insert(named.begin(), first);
  const Names metrics = in_metric_order(keys_of(results, &Result::metrics), named);
  ResultTable table(results);
  add_names(table, results);
  const size_t left_out = add_metrics(table, metrics, size_t(style.width));
  std::string text = results.front().step + "\n" + table.text();
  if (const Result* best = best_of(results)) {
    const std::string& metric = best->goal->metric;
    const std::string run = differ(results, &Result::run) ? best->run + " " : "";
    text += "best: " + escaped(run + best->job) + ", " + escaped(metric) + " " +
            metric_text(best->metrics, metric) +
            (best->goal->largest ? " (the largest)" : " (the smallest)") + "\n";
  }
  for (const Result& result : results) text += prediction_line(result);
  if (left_out > 0) {
    text += dim(std::to_string(left_out) + " more with --csv or --json: " +
                    escaped(join(std::span(metrics).last(left_out), ", ")),
                style) +
            "\n";
  }
  return text;
}

/// Groups the results by step, in the order in which the steps first appear.
std::vector<std::vector<Result>> by_step(std::span<const Result> results) {
  std::vector<std::vector<Result>> steps;
  for (const Result& result : results) {
    auto same = std::find_if(steps.begin(), steps.end(),
                             [&](const auto& step) { return step.front().step == result.step; });
    if (same == steps.end()) same = steps.emplace(steps.end());
    same->push_back(result);
  }
  return steps;
}

/// Returns text that no spreadsheet runs as a formula and no terminal as a control sequence.
std::string csv_cell(std::string_view text) {
  constexpr std::string_view kFormulas = "=@+-";
  const bool acts =
      !text.empty() && kFormulas.find(text.front()) != kFormulas.npos && !number_from<double>(text);
  return csv_field((acts ? "'" : "") + escaped(text));
}

/// The value with all its digits; empty if it is missing.
std::string csv_value(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  return found == object.end() ? "" : csv_cell(shown_value(*found));
}

/// The 0.975 quantile of Student's t with `freedom` degrees of freedom. Above 30 it uses the
/// expansion of Abramowitz and Stegun 26.7.5, which is accurate to 0.001 there.
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

}  // namespace

const Result* best_of(std::span<const Result> results) {
  const Result* best = nullptr;
  std::optional<Goal> goal;
  double best_value = 0;
  size_t counted = 0;
  for (const Result& result : results) {
    if (!result.goal || !satisfies_dependents(result.state)) continue;
    if (!goal) goal = result.goal;
    if (*goal != *result.goal) return nullptr;
    const auto value = comparable(result.metrics.value(goal->metric, Json()));
    if (!value) continue;
    ++counted;
    if (best && (goal->largest ? *value <= best_value : *value >= best_value)) continue;
    best = &result;
    best_value = *value;
  }
  return counted > 1 ? best : nullptr;
}

void remove_repeated(std::vector<Result>& results) {
  std::set<std::string> shown;
  std::erase_if(results, [&shown](const Result& result) {
    return !result.directory.empty() && !shown.insert(result.directory).second;
  });
}

Json metrics_of(const Plan& plan, size_t job, const JobRow& row) {
  Json metrics = row.metrics.is_object() ? row.metrics : Json::object();
  if (metrics.empty() || job >= plan.jobs.size()) return metrics;
  const std::string& step = plan.workflow.steps[plan.jobs[job].step].name;
  const auto found = plan.options.predictions.find(step);
  if (found == plan.options.predictions.end()) return metrics;
  const auto add = [&](const char* name, std::optional<double> value) {
    if (value) metrics[name] = *value;
  };
  add("predicted_step_s", number_at(*found, "step_s"));
  add("predicted_time_s", number_at(*found, "time_s"));
  std::optional<double> rate = number_at(metrics, "images_per_s");
  if (!rate) rate = number_at(metrics, "samples_per_s");
  if (rate && *rate > 0) add("step_s", number_at(*found, "batch").value_or(0) / *rate);
  if (row.started && row.ended && row.state == JobState::Succeeded) {
    add("time_s", std::chrono::duration<double>(*row.ended - *row.started).count());
  }
  return metrics;
}

std::vector<Result> results_of(const Plan& plan, const RunStatus& status, const std::string& step) {
  std::vector<Result> results;
  for (size_t i = 0; i < plan.jobs.size() && i < status.jobs.size(); ++i) {
    const PlannedJob& job = plan.jobs[i];
    const JobRow& row = status.jobs[i];
    if (row.job != job.name) continue;  // the run has just gained jobs
    const Step& of = plan.workflow.steps[job.step];
    if (step.empty() ? copies_sources(of.uses) : of.name != step) continue;
    results.push_back({.run = status.run,
                       .workflow = status.workflow,
                       .step = of.name,
                       .job = job.name,
                       .state = row.state,
                       .params = plan.workflow.params,
                       .matrix = plan.steps[job.step].elements->at(job.element),
                       .metrics = metrics_of(plan, i, row),
                       .goal = goal_of(plan.workflow, of.name, row.metrics),
                       .named = named_metrics(plan.workflow, of.name),
                       .directory = row.directory});
  }
  if (!step.empty()) return results;
  std::set<std::string> with_metrics;
  for (const Result& result : results) {
    if (!result.metrics.empty()) with_metrics.insert(result.step);
  }
  std::erase_if(results, [&](const Result& r) { return !with_metrics.contains(r.step); });
  return results;
}

bool largest_first(std::span<const Result> results, const std::string& metric) {
  const auto decides = [&](const Result& result) {
    return result.goal && result.goal->metric == metric;
  };
  const auto found = std::ranges::find_if(results, decides);
  return found == results.end() ? largest_is_best(metric) : found->goal->largest;
}

void sort_results(std::vector<Result>& results, const std::string& metric, Order order) {
  const Names known = keys_of(results, &Result::metrics);
  if (std::find(known.begin(), known.end(), metric) == known.end()) {
    const Names axes = keys_of(results, &Result::matrix);
    const bool is_axis = std::ranges::find(axes, metric) != axes.end();
    throw Error(Errc::InvalidInput,
                (is_axis ? "'" + metric + "' is an axis of the matrix, and no metric"
                         : "no result has the metric '" + metric + "'") +
                    (known.empty() ? "" : "; metrics: " + join(known, ", ")) +
                    (is_axis ? "" : did_you_mean(metric, known)));
  }
  const Goal goal{metric, largest_first(results, metric)};
  for (Result& result : results) result.goal = goal;
  const bool descending = goal.largest == (order == Order::BestFirst);
  std::stable_sort(results.begin(), results.end(), [&](const Result& a, const Result& b) {
    const auto first = comparable(a.metrics.value(metric, Json()));
    const auto second = comparable(b.metrics.value(metric, Json()));
    if (!first || !second) return first.has_value() && !second;
    return descending ? *first > *second : *first < *second;
  });
}

std::string results_table(std::span<const Result> results, const std::string& first,
                          const Style& style) {
  std::string text;
  for (const auto& step : by_step(results)) {
    text += (text.empty() ? "" : "\n") + step_table(step, first, style);
  }
  return text;
}

std::string results_csv(std::span<const Result> results) {
  struct ColumnGroup {
    std::string prefix;
    Json Result::*values;
  };
  const std::array<ColumnGroup, 3> groups = {
      {{"params.", &Result::params}, {"matrix.", &Result::matrix}, {"metrics.", &Result::metrics}}};
  std::string text = "run,step,job,state";
  std::array<Names, groups.size()> names;
  for (size_t i = 0; i < groups.size(); ++i) {
    names[i] = keys_of(results, groups[i].values);
    for (const std::string& name : names[i]) text += "," + csv_cell(groups[i].prefix + name);
  }
  text += "\r\n";
  for (const Result& result : results) {
    text += csv_cell(result.run) + "," + csv_cell(result.step) + "," + csv_cell(result.job) + "," +
            std::string(name(result.state));
    for (size_t i = 0; i < groups.size(); ++i) {
      for (const std::string& name : names[i])
        text += "," + csv_value(result.*groups[i].values, name);
    }
    text += "\r\n";
  }
  return text;
}

Json to_json(const Result& result) {
  return {{"run", result.run},       {"workflow", result.workflow}, {"step", result.step},
          {"job", result.job},       {"state", name(result.state)}, {"params", result.params},
          {"matrix", result.matrix}, {"metrics", result.metrics}};
}

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
  std::vector<ComparedJobs> compared;
  std::map<std::pair<std::string, JobName>, size_t> places;
  for (const Result& result : results) {
    Json matrix = result.matrix;
    matrix.erase(kRepeatAxis);
    const std::string label = element_label(matrix);
    JobName job = label.empty() ? JobName(result.step) : JobName(result.step, label);
    const auto [place, is_new] = places.try_emplace({result.run, job}, compared.size());
    if (is_new) compared.push_back({result.run, std::move(job), std::move(matrix), {}});
    auto& metrics = compared[place->second].metrics;
    for (const auto& [name, value] : result.metrics.items()) {
      if (const auto number = comparable(value)) metrics[name].values.push_back(*number);
    }
  }
  std::erase_if(compared, [](const ComparedJobs& jobs) { return jobs.metrics.empty(); });
  for (ComparedJobs& jobs : compared) {
    for (auto& [name, estimate] : jobs.metrics) estimate = estimate_of(std::move(estimate.values));
  }
  return compared;
}

}  // namespace dlflow
