#include "engine/report/curves.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/not_finite.h"
#include "base/parse_json.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20;

/// Keys that give a line's position, or matter only while the job runs.
constexpr std::array<std::string_view, 10> kNoCurves = {
    "at", "bytes", "epoch", "epochs", "eta_s", "pass", "progress", "step", "steps", "total_bytes"};
/// If a line at the end of an epoch has one of these, its loss is the validation loss.
constexpr std::array<const char*, 4> kOfValidation = {"accuracy", "rmse", "perplexity", "iou"};
/// They grow within an epoch, so only their values at its end count.
constexpr std::array<std::string_view, 2> kOfEpochs = {"data_wait_s", "communication_wait_s"};

bool has(std::span<const std::string_view> keys, std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

class Reader {
 public:
  void read(std::string_view lines) {
    begins_anew_ = true;
    while (!lines.empty()) {
      const size_t end = lines.find('\n');
      if (end == lines.npos) return;  // still being written
      take(lines.substr(0, end));
      lines.remove_prefix(end + 1);
    }
  }

  Reported result() && { return std::move(reported_); }

 private:
  void take(std::string_view text) {
    const Json line = parse_json(quote_not_finite(text), kForeignJson);
    if (!line.is_object()) return;
    const CurvePoint place = place_of(line);
    if (place.step < last_step_) begins_anew_ = true;
    if (begins_anew_) ++part_;
    begins_anew_ = false;
    last_step_ = place.step;
    const bool ends_epoch = number_at(line, "epoch_s").has_value();
    if (ends_epoch) add_time(line);
    for (const auto& [key, value] : line.items()) {
      if (has(kNoCurves, key)) continue;
      if (has(kOfEpochs, key) && !ends_epoch) continue;
      std::string name = key;
      if (key == "loss" && ends_epoch) {
        const auto has = [&line](const char* measure) { return line.contains(measure); };
        if (std::ranges::none_of(kOfValidation, has)) continue;
        name = "validation_loss";
      }
      if (const auto number = number_at(line, key)) add(name, place, *number);
    }
  }

  CurvePoint place_of(const Json& line) {
    CurvePoint place;
    place.line = ++lines_;
    place.step = number_at(line, "step").value_or(double(lines_));
    const auto epochs = number_at(line, "epochs");
    const auto steps = number_at(line, "steps");
    const bool exact = epochs && steps && *steps > 0 && line.contains("step");
    place.epoch =
        exact ? place.step / *steps * *epochs : number_at(line, "epoch").value_or(place.step);
    constexpr double kLatest = 1e11;  // seconds; anything later is not a time
    if (const auto at = number_at(line, "at"); at && *at >= 0 && *at < kLatest) {
      place.at = Time(std::chrono::milliseconds(std::llround(*at * 1000)));
    }
    return place;
  }

  void add(const std::string& name, CurvePoint place, double value) {
    auto found = std::ranges::find(reported_.curves, name, &Curve::name);
    if (found == reported_.curves.end()) {
      constexpr size_t kMostCurves = 64;  // a program may use a new name in each line
      if (reported_.curves.size() == kMostCurves) return;
      reported_.curves.push_back({.name = name, .points = {}, .breaks = {}});
      parts_.push_back(part_);
      found = std::prev(reported_.curves.end());
    }
    size_t& part = parts_[size_t(found - reported_.curves.begin())];
    if (part != part_) found->breaks.push_back(found->points.size());
    part = part_;
    place.value = value;
    found->points.push_back(place);
  }

  void add_time(const Json& line) {
    if (!reported_.training) reported_.training.emplace();
    TrainingTime& time = *reported_.training;
    time.training_s += number_at(line, "epoch_s").value_or(0);
    time.data_wait_s += number_at(line, "data_wait_s").value_or(0);
    if (const auto waited = number_at(line, "communication_wait_s")) {
      time.communication_wait_s = time.communication_wait_s.value_or(0) + *waited;
    }
  }

  Reported reported_;
  std::vector<size_t> parts_;  // parallel to the curves: the latest part in which each has a point
  size_t part_ = 0;
  double last_step_ = -1;
  size_t lines_ = 0;
  bool begins_anew_ = false;
};

/// At its end; not open if there is none, or if a program put a pipe in its place.
std::ifstream open_at_end(const std::filesystem::path& file) {
  std::error_code none;
  std::ifstream stream;
  if (std::filesystem::is_regular_file(file, none)) {
    stream.open(file, std::ios::binary | std::ios::ate);
  }
  return stream;
}

std::string first_bytes(const std::filesystem::path& file) {
  std::ifstream stream = open_at_end(file);
  if (!stream.is_open()) return {};
  std::string bytes(std::min(size_t(std::max<std::streamoff>(0, stream.tellg())), kMostBytes), 0);
  stream.seekg(0);
  stream.read(bytes.data(), std::streamsize(bytes.size()));
  bytes.resize(size_t(stream.gcount()));
  return bytes;
}

double area(const CurvePoint& a, const CurvePoint& b, double step, double value) {
  return std::abs((a.step - step) * (b.value - a.value) - (a.step - b.step) * (value - a.value));
}

}  // namespace

Reported read_reported(std::string_view lines) {
  Reader reader;
  reader.read(lines);
  return std::move(reader).result();
}

Reported read_reported_job(const std::filesystem::path& job_directory) {
  Reader reader;
  for (const int attempt : attempts(job_directory)) {
    reader.read(first_bytes(attempt_directory(job_directory, attempt) / "metrics.jsonl"));
  }
  return std::move(reader).result();
}

Curve thinned(const Curve& curve, size_t max_points) {
  const std::vector<CurvePoint>& all = curve.points;
  if (all.size() <= max_points || max_points < 3) return curve;
  std::set<size_t> kept = {0, all.size() - 1};
  for (const size_t at : curve.breaks) kept.insert(at);
  const double width = double(all.size() - 2) / double(max_points - 2);
  const auto begin_of = [&](size_t part) { return 1 + size_t(double(part) * width); };
  size_t last = 0;
  for (size_t part = 0; part + 2 < max_points; ++part) {
    const size_t begin = begin_of(part), end = std::min(begin_of(part + 1), all.size() - 1);
    const size_t next_end = std::min(begin_of(part + 2), all.size());
    double step = 0, value = 0;
    for (size_t i = end; i < next_end; ++i) {
      step += all[i].step;
      value += all[i].value;
    }
    const double count = double(std::max<size_t>(1, next_end - end));
    const auto largest = [&](size_t a, size_t b) {
      return area(all[last], all[a], step / count, value / count) <
             area(all[last], all[b], step / count, value / count);
    };
    size_t best = begin;
    for (size_t i = begin; i < end; ++i) {
      if (largest(best, i)) best = i;
    }
    kept.insert(best);
    last = best;
  }
  Curve thin{.name = curve.name, .points = {}, .breaks = {}};
  for (const size_t i : kept) {
    if (std::binary_search(curve.breaks.begin(), curve.breaks.end(), i)) {
      thin.breaks.push_back(thin.points.size());
    }
    thin.points.push_back(all[i]);
  }
  return thin;
}

std::optional<Json> last_metrics(const std::filesystem::path& file) {
  constexpr std::streamoff kTail = 8192;  // several lines: one is a few hundred bytes
  std::ifstream stream = open_at_end(file);
  if (!stream.is_open()) return std::nullopt;
  const std::streamoff size = stream.tellg();
  stream.seekg(std::max<std::streamoff>(0, size - kTail));
  std::string tail(size_t(std::min(size, kTail)), '\0');
  stream.read(tail.data(), std::streamsize(tail.size()));
  const size_t end = tail.rfind('\n');  // the rest is still being written
  if (end == std::string::npos || end == 0) return std::nullopt;
  const size_t before = tail.rfind('\n', end - 1);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  const std::string_view last = std::string_view(tail).substr(begin, end - begin);
  Json line = parse_json(quote_not_finite(last), kForeignJson);
  if (!line.is_object()) return std::nullopt;
  return line;
}

ProgressByJob read_progress(const RunStatus& status) {
  ProgressByJob progress;
  for (const JobRow& job : status.jobs) {
    if (job.state != JobState::Running) continue;
    const auto file = attempt_directory(job.directory, job.attempt) / "metrics.jsonl";
    if (auto metrics = last_metrics(file)) progress[job.job] = std::move(*metrics);
  }
  return progress;
}

}  // namespace dlflow
