#include "engine/report/headline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/not_finite.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/model/step_kinds.h"

namespace dlflow {
namespace {

std::string digits(double value) {
  // Whole numbers from 2 on are counts or scores; smaller ones are shares.
  const bool whole = value == std::floor(value) && std::abs(value) > 1 && std::abs(value) < 1e15;
  return print_number(whole ? "%.0f" : "%.3f", value);
}

/// "accuracy 0.907"; nothing if the metric is missing.
std::optional<std::string> shown(const Json& metrics, const std::string& name) {
  if (!metrics.is_object()) return std::nullopt;
  const auto found = metrics.find(name);
  if (found == metrics.end()) return std::nullopt;
  if (found->is_number()) return escaped(name) + " " + digits(found->get<double>());
  if (number_of(*found)) return escaped(name) + " " + found->get<std::string>();
  return std::nullopt;
}

/// "max accuracy" -> the metric and whether the largest is wanted; nothing for "latest".
std::optional<Goal> goal_in(const Json& select) {
  if (!select.is_string()) return std::nullopt;
  const std::vector<std::string> words = split(select.get<std::string>(), ' ');
  if (words.size() != 2 || (words[0] != "max" && words[0] != "min")) return std::nullopt;
  return Goal{words[1], words[0] == "max"};
}

Json selection_of(const Step& step) {
  const Json& with = step.with.source();
  return with.is_object() ? with.value("select", Json()) : Json();
}

/// The metric by which an expression in `other` selects among the elements of `step`:
/// `max_by(steps.try.outputs.table, steps.try.metrics.score)`.
std::optional<Goal> goal_in_expressions(const Step& other, const std::string& step) {
  constexpr std::string_view kOfNames =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  const std::string text = other.run.source().dump() + other.with.source().dump();
  const std::string metrics = "steps." + step + ".metrics.";
  for (const bool largest : {true, false}) {
    const std::string_view function = largest ? "max_by(" : "min_by(";
    for (size_t at = text.find(function); at != text.npos; at = text.find(function, at + 1)) {
      const size_t found = text.find(metrics, at);
      if (found == text.npos || found > text.find(')', at)) continue;
      const size_t begin = found + metrics.size();
      return Goal{text.substr(begin, text.find_first_not_of(kOfNames, begin) - begin), largest};
    }
  }
  return std::nullopt;
}

/// Returns the job with the best `metric` in the step of `last`, or null if every value is NaN, and
/// the number of jobs that have the metric.
std::pair<const JobRow*, size_t> best_beside(const RunStatus& status, const JobRow& last,
                                             const UsualMetric& metric) {
  const JobRow* best = nullptr;
  double best_value = 0;
  size_t counted = 0;
  for (const JobRow& job : status.jobs) {
    if (job.step != last.step || !satisfies_dependents(job.state) || !job.metrics.is_object())
      continue;
    const Json written = job.metrics.value(std::string(metric.name), Json());
    if (number_of(written)) ++counted;
    const auto value = comparable(written);
    if (!value) continue;
    const bool better = metric.largest ? *value > best_value : *value < best_value;
    if (best != nullptr && !better) continue;
    best = &job;
    best_value = *value;
  }
  return {best, counted};
}

/// "accuracy 0.907", or for a sweep "accuracy 0.907 (train[lr=0.1], the best of 3)".
std::string usual_text(const RunStatus& status, const JobRow& last) {
  for (const UsualMetric& metric : kUsualMetrics) {
    if (!shown(last.metrics, std::string(metric.name))) continue;
    const auto [best, counted] = best_beside(status, last, metric);
    std::string text = *shown((best ? *best : last).metrics, std::string(metric.name));
    if (best == nullptr || counted < 2) return text;
    return text + " (" + best->job + ", the best of " + std::to_string(counted) + ")";
  }
  return "";
}

bool refers_to(const Step& step, const std::string& other) {
  for (const Reference& reference : step.with.references()) {
    if (reference.path.size() > 1 && reference.path[0] == "steps" && reference.path[1] == other) {
      return true;
    }
  }
  return false;
}

/// "accuracy 0.907 (required >= 0.88)" for a gate that was passed.
std::string gate_text(const Json& metrics, const std::vector<Requirement>& require) {
  std::string text;
  for (const Requirement& requirement : require) {
    const auto value = shown(metrics, requirement.metric);
    if (!value) continue;
    text += (text.empty() ? "" : ", ") + *value + " (required " + requirement.comparison + " " +
            Json(requirement.bound).dump() + ")";
  }
  return text;
}

/// The text of the last job for which `of_job` returns one.
template <typename OfJob>
std::string last_with(const RunStatus& status, const OfJob& of_job) {
  for (auto job = status.jobs.rbegin(); job != status.jobs.rend(); ++job) {
    if (!satisfies_dependents(job->state)) continue;
    if (std::string text = of_job(*job); !text.empty()) return text;
  }
  return "";
}

enum class Kind { Named, Usual, Score, Other, Work, OfOneClass };

template <size_t N>
bool has_any(std::string_view name, const std::array<std::string_view, N>& parts) {
  return std::ranges::any_of(
      parts, [name](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

bool is_of_one_class(std::string_view name) {
  return name.starts_with("accuracy_of_") || name.starts_with("iou_of_");
}

/// A time, a rate, or an amount of work.
bool is_work(std::string_view name) {
  constexpr std::array<std::string_view, 13> kAmounts = {
      "at",         "bytes",    "epoch", "epochs",  "files", "images", "learning_rate",
      "parameters", "progress", "ranks", "samples", "step",  "steps"};
  return name.ends_with("_s") || name.find("_bytes") != name.npos ||
         std::ranges::find(kAmounts, name) != kAmounts.end();
}

bool is_score(std::string_view name) {
  constexpr std::array<std::string_view, 12> kParts = {"accuracy",  "auc",    "dice", "error",
                                                       "f1",        "iou",    "loss", "perplexity",
                                                       "precision", "recall", "rmse", "top"};
  return has_any(name, kParts);
}

/// The metric's kind, and its position within that kind.
std::pair<Kind, size_t> place_of(std::string_view name, std::span<const std::string> named) {
  if (const auto found = std::ranges::find(named, name); found != named.end()) {
    return {Kind::Named, size_t(found - named.begin())};
  }
  const auto usual = std::ranges::find(kUsualMetrics, name, &UsualMetric::name);
  if (usual != kUsualMetrics.end()) return {Kind::Usual, size_t(usual - kUsualMetrics.begin())};
  if (is_of_one_class(name)) return {Kind::OfOneClass, 0};
  if (is_work(name)) {
    const bool is_bytes = name.find("bytes") != name.npos;
    return {Kind::Work, is_bytes ? 2 : name == "epochs" || name == "steps" ? 0 : 1};
  }
  return {is_score(name) ? Kind::Score : Kind::Other, 0};
}

}  // namespace

bool largest_is_best(std::string_view metric) {
  constexpr std::array<std::string_view, 15> kCosts = {
      "loss",   "error", "rmse",    "mae",    "mse",  "perplexity", "bits_per_", "bytes",
      "energy", "cost",  "latency", "regret", "bias", "crps",       "_wer_"};
  const bool is_time = metric.ends_with("_s") && !metric.ends_with("per_s");
  return !is_time && !has_any("_" + std::string(metric) + "_", kCosts);
}

NumbersByStep numbers_of(const Workflow& workflow) {
  NumbersByStep numbers;
  for (const Step& step : workflow.steps) {
    const auto selected = goal_in(selection_of(step));
    const StepKind* const kind = find_step_kind(step.uses);
    numbers[step.name] = {step.require, selected ? selected->metric : "",
                          kind != nullptr && kind->outputs.empty()};
  }
  return numbers;
}

std::string headline(const RunStatus& status, const NumbersByStep& numbers) {
  const StepNumbers none;
  const auto of = [&](const JobRow& job) -> const StepNumbers& {
    const auto found = numbers.find(job.step);
    return found == numbers.end() ? none : found->second;
  };
  std::string text =
      last_with(status, [&](const JobRow& job) { return gate_text(job.metrics, of(job).require); });
  if (!text.empty()) return text;
  text = last_with(status, [&](const JobRow& job) {
    const std::string& metric = of(job).selects;
    return metric.empty() ? "" : shown(job.metrics, metric).value_or("");
  });
  if (!text.empty()) return text;
  const auto usual = [&status](const JobRow& job) { return usual_text(status, job); };
  text = last_with(status, [&](const JobRow& job) { return of(job).evaluates ? usual(job) : ""; });
  return text.empty() ? last_with(status, usual) : text;
}

std::vector<std::string> named_metrics(const Workflow& workflow, const std::string& step) {
  std::vector<std::string> named;
  for (const Step& other : workflow.steps) {
    const auto goal = goal_in(selection_of(other));
    if (goal && refers_to(other, step)) named.push_back(goal->metric);
    if (const auto chosen = goal_in_expressions(other, step)) named.push_back(chosen->metric);
    if (other.name != step) continue;
    for (const Requirement& requirement : other.require) named.push_back(requirement.metric);
  }
  return named;
}

std::optional<Goal> goal_of(const Workflow& workflow, const std::string& step,
                            const Json& metrics) {
  const auto has = [&metrics](const std::string& name) {
    return metrics.is_object() && metrics.contains(name);
  };
  for (const Step& other : workflow.steps) {
    auto goal = goal_in(selection_of(other));
    if (goal && refers_to(other, step) && has(goal->metric)) return goal;
    goal = goal_in_expressions(other, step);
    if (goal && has(goal->metric)) return goal;
  }
  for (const Step& own : workflow.steps) {
    if (own.name != step) continue;
    for (const Requirement& requirement : own.require) {
      if (has(requirement.metric) && requirement.comparison != "==") {
        return Goal{requirement.metric, requirement.comparison.starts_with(">")};
      }
    }
  }
  for (const UsualMetric& metric : kUsualMetrics) {
    std::string name(metric.name);
    if (has(name)) return Goal{std::move(name), metric.largest};
  }
  return std::nullopt;
}

std::vector<std::string> in_metric_order(std::vector<std::string> names,
                                         std::span<const std::string> named) {
  std::ranges::stable_sort(names, {},
                           [named](const std::string& name) { return place_of(name, named); });
  return names;
}

}  // namespace dlflow
