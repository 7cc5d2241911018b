#include "engine/report/describe.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/not_finite.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/report/headline.h"
#include "engine/report/job_words.h"

namespace dlflow {
namespace {

/// Converts a number that a program wrote, which may be huge, negative or NaN.
uint64_t whole(double value) {
  constexpr double kLargest = 1e18;
  return value > 0 ? uint64_t(std::min(value, kLargest)) : 0;
}

std::vector<std::string> names_in(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

std::string shown_number(double value) {
  const bool is_whole = value == std::floor(value) && std::abs(value) < 1e15;
  return print_number(is_whole ? "%.0f" : "%.3g", value);
}

/// Formats a measured number, also "NaN"; nothing if the key is missing.
std::optional<std::string> measured(const Json& object, const char* key) {
  if (const auto value = number_at(object, key)) return print_number("%.3f", *value);
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end() || !number_of(*found)) return std::nullopt;
  return found->get<std::string>();
}

void add(std::string& text, const std::string& part, const char* separator = ", ") {
  if (part.empty()) return;
  if (!text.empty()) text += separator;
  text += part;
}

/// The completed fraction, from the step's progress or its bytes.
std::optional<double> fraction_of(const Json& progress) {
  if (const auto fraction = number_at(progress, "progress")) return std::clamp(*fraction, 0.0, 1.0);
  const auto bytes = number_at(progress, "bytes");
  const auto total = number_at(progress, "total_bytes");
  if (bytes && total && *total > 0) return std::clamp(*bytes / *total, 0.0, 1.0);
  return std::nullopt;
}

/// "epoch 2/3 ━━━╺━━ 64%  loss 0.312"; the bar fills the rest of `width` columns.
std::string how_far(const Json& progress, int width, const Style& style) {
  constexpr int kLongestBar = 16;
  constexpr int kShortestBar = 6;
  std::string text;
  if (const auto epoch = number_at(progress, "epoch")) {
    text = "epoch " + shown_number(*epoch);
    if (const auto epochs = number_at(progress, "epochs")) text += "/" + shown_number(*epochs);
  }
  std::string rest;
  const auto fraction = fraction_of(progress);
  if (fraction) rest = shown_number(std::floor(*fraction * 100)) + "%";
  if (const auto bytes = number_at(progress, "bytes")) {
    const auto total = number_at(progress, "total_bytes");
    add(rest, format_size(whole(*bytes)) + (total ? " of " + format_size(whole(*total)) : ""),
        "  ");
  }
  if (const auto loss = measured(progress, "loss")) add(rest, "loss " + *loss, "  ");
  const int bar = std::min(kLongestBar, width - int(text.size() + rest.size()) - 2);
  if (fraction && bar >= kShortestBar) add(text, progress_bar(*fraction, bar, style), " ");
  add(text, rest, fraction ? " " : "  ");
  return text;
}

/// "3,980 img/s"; for text "51,200 tokens/s", for tables "9,000 samples/s"
std::optional<std::string> rate_in(const Json& metrics) {
  constexpr std::pair<const char*, const char*> kUnits[] = {
      {"images_per_s", "img/s"}, {"tokens_per_s", "tokens/s"}, {"samples_per_s", "samples/s"}};
  for (const auto& [metric, unit] : kUnits) {
    if (const auto rate = number_at(metrics, metric)) {
      return format_count(whole(*rate)) + " " + unit;
    }
  }
  return std::nullopt;
}

/// "3,980 img/s on 2 ranks, 0:17 left"
std::string how_fast(const Json& progress) {
  std::string text;
  if (const auto rate = rate_in(progress)) {
    text = *rate;
    if (const auto ranks = number_at(progress, "ranks")) {
      text += " on " + shown_number(*ranks) + (*ranks == 1 ? " rank" : " ranks");
    }
  }
  if (const auto eta = number_at(progress, "eta_s")) {
    add(text, format_duration(std::chrono::seconds(whole(*eta))) + " left");
  }
  if (const auto noise = number_at(progress, "noise_scale")) {
    add(text, "noise scale " + format_count(whole(*noise)));
  }
  const auto message = progress.find("message");
  if (message != progress.end() && message->is_string())
    add(text, escaped(message->get<std::string>()));
  return text;
}

}  // namespace

std::string elapsed(const JobRow& job, Time now) {
  const bool stands = is_final(job.state) || job.state == JobState::Queued;
  const bool is_over = stands && !job.ended;  // the time of the end is unknown
  if (!job.started || is_over) return "-";
  if (!job.limit || job.ended) return format_duration(job.ended.value_or(now) - *job.started);
  const Time since = job.limit_since.value_or(*job.started);
  const Time::duration used = std::max(now - since, Time::duration(0));  // clocks differ
  return format_duration(used) + "/" + format_duration(*job.limit);
}

std::string describe_metrics(const Json& metrics) {
  std::string text;
  if (const auto bytes = number_at(metrics, "bytes")) {
    add(text, format_size(whole(*bytes)) + " staged");
    if (const auto files = number_at(metrics, "files")) {
      add(text, format_count(whole(*files)) + (*files == 1 ? " file" : " files"));
    }
  }
  for (const UsualMetric& usual : kUsualMetrics) {
    const std::string key(usual.name);
    if (const auto value = measured(metrics, key.c_str())) add(text, key + " " + *value);
  }
  if (const auto rate = rate_in(metrics)) add(text, *rate);
  if (!text.empty() || !metrics.is_object()) return text;
  for (const std::string& key : in_metric_order(names_in(metrics))) {  // the first that is a number
    const Json& value = metrics.at(key);
    if (value.is_number()) return escaped(key) + " " + shown_number(value.get<double>());
    if (number_of(value)) return escaped(key) + " " + value.get<std::string>();
  }
  return text;
}

std::vector<std::string> describe_progress(const Json& progress, const Style& style) {
  std::vector<std::string> lines = {how_far(progress, style.width, style), how_fast(progress)};
  std::erase(lines, "");
  return lines;
}

std::string describe_end(const RunStatus& status, const NumbersByStep& numbers) {
  std::string text = status.run + " " + std::string(name(status.state));
  if (status.ended) text += " in " + format_duration(status.worked(*status.ended));
  if (status.state == RunState::Succeeded) {
    const std::string number = headline(status, numbers);
    if (!number.empty()) text += ": " + number;
    return text;
  }
  const JobRow* const wrong = first_wrong(status);
  if (wrong == nullptr) return text;
  const StepCounts counts(status.jobs);
  if (counts.wrong == 0 && status.state == RunState::Cancelled) {
    return text + ", " + format_count(counts.done) + " of " + plural(counts.all, "job") + " done";
  }
  text += ": ";
  if (counts.wrong > 1) {
    text +=
        format_count(counts.wrong) + " of " + plural(counts.all, "job") + " failed, the first: ";
  }
  text += wrong->job + " " + std::string(name(wrong->state));
  return wrong->reason.empty() ? text : text + ", " + wrong->reason;
}

}  // namespace dlflow
