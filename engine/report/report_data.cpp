#include "engine/report/report_data.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include "base/file.h"
#include "base/json_fields.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/units.h"
#include "base/version.h"
#include "engine/plan/plan_json.h"
#include "engine/report/curves.h"
#include "engine/report/headline.h"
#include "engine/report/json.h"
#include "engine/report/results.h"
#include "engine/report/spans.h"
#include "engine/report/usage.h"

namespace dlflow {
namespace {

using std::chrono::milliseconds;

/// The number of points in all curves of all runs; a number takes about ten bytes.
constexpr size_t kMostPoints = 150'000;
constexpr size_t kMostPointsOfCurve = 600;
constexpr size_t kFewestPointsOfCurve = 6;
constexpr size_t kMostFiles = 500;
constexpr uintmax_t kMostPictureBytes = 8 << 20;  // per run

/// Rounds to six digits: more are invisible, and 0.1 + 0.2 would take 19 characters.
double rounded(double value) { return std::strtod(print_number("%.6g", value).c_str(), nullptr); }

double as_seconds(milliseconds time) { return double(time.count()) / 1000; }

Json filled_or_null(Json json) { return json.empty() ? Json() : json; }

Json without_nulls(Json object) {
  for (auto member = object.begin(); member != object.end();) {
    member = member->is_null() ? object.erase(member) : std::next(member);
  }
  return object;
}

Json to_json(const JobSpan& span, Time began) {
  return {span.running ? 1 : 0,
          span.attempt,
          span.pass,
          as_seconds(span.begin - began),
          span.end ? Json(as_seconds(*span.end - began)) : Json(),
          span.outcome ? Json(name(*span.outcome)) : Json(),
          span.node,
          span.reason};
}

Json to_json(const Curve& curve, Time began) {
  Json step = Json::array(), epoch = Json::array(), at = Json::array(), value = Json::array();
  for (const CurvePoint& point : curve.points) {
    step.push_back(point.step);
    epoch.push_back(rounded(point.epoch));
    at.push_back(point.at ? Json(rounded(as_seconds(*point.at - began))) : Json());
    value.push_back(rounded(point.value));
  }
  return {{"name", curve.name},  {"step", std::move(step)},   {"epoch", std::move(epoch)},
          {"at", std::move(at)}, {"value", std::move(value)}, {"breaks", curve.breaks}};
}

Json to_json(const TrainingTime& time) {
  return without_nulls({{"training_s", time.training_s},
                        {"data_wait_s", time.data_wait_s},
                        {"communication_wait_s", json_of(time.communication_wait_s)}});
}

/// Names the source of the energy, too.
Json used_json(const JobRow& job, const std::string& scheduler) {
  Json used = without_nulls(usage_json(job));
  if (used.contains("energy_j")) used["energy_source"] = scheduler;
  return used;
}

/// The reports of all jobs' programs, limited to the size of a page.
struct AllReported {
  std::vector<std::vector<Reported>> by_run;  ///< by run, then by job
  size_t points_of_curve = kMostPointsOfCurve;
};

/// Limits a job to `max_curves` curves and keeps the most important ones.
void keep_first(Reported& reported, size_t max_curves) {
  if (reported.curves.size() <= max_curves) return;
  constexpr std::array kFirst = {"loss",         "accuracy",     "validation_loss",
                                 "images_per_s", "tokens_per_s", "samples_per_s"};
  std::ranges::stable_sort(reported.curves, [&](const Curve& a, const Curve& b) {
    return std::ranges::find(kFirst, a.name) < std::ranges::find(kFirst, b.name);
  });
  reported.curves.resize(max_curves);
}

AllReported read_all(std::span<const ReportedRun> runs) {
  AllReported all;
  size_t with_curves = 0, curves = 0;
  for (const ReportedRun& run : runs) {
    std::vector<Reported> jobs;
    for (const JobRow& job : run.status.jobs) {
      const bool began = job.attempt > 0 || job.state == JobState::Cached;
      jobs.push_back(began ? read_reported_job(job.directory) : Reported());
      with_curves += jobs.back().curves.empty() ? 0 : 1;
    }
    all.by_run.push_back(std::move(jobs));
  }
  const size_t room = kMostPoints / kFewestPointsOfCurve / std::max<size_t>(1, with_curves);
  for (std::vector<Reported>& jobs : all.by_run) {
    for (Reported& job : jobs) {
      keep_first(job, std::max<size_t>(1, room));
      curves += job.curves.size();
    }
  }
  all.points_of_curve = std::clamp(kMostPoints / std::max<size_t>(1, curves), kFewestPointsOfCurve,
                                   kMostPointsOfCurve);
  return all;
}

class RunJson {
 public:
  RunJson(const ReportedRun& run, const std::vector<Reported>& reported, size_t max_points,
          Time now)
      : run_(run),
        plan_(run.plan),
        status_(run.status),
        reported_(reported),
        max_points_(max_points),
        now_(now) {}

  Json json() {
    Json jobs = Json::array();
    for (size_t job = 0; job < status_.jobs.size(); ++job) jobs.push_back(job_json(job));
    const Time end = status_.ended.value_or(now_);
    return without_nulls({{"run", status_.run},
                          {"workflow", status_.workflow},
                          {"profile", status_.profile},
                          {"state", name(status_.state)},
                          {"started", to_rfc3339(status_.started)},
                          {"ended", status_.ended.has_value()},
                          {"length", as_seconds(std::max(end, last_) - status_.started)},
                          {"problem", or_null(status_.problem)},
                          {"steps", steps_json()},
                          {"jobs", std::move(jobs)},
                          {"provenance", provenance_json()}});
  }

 private:
  Json job_json(size_t index) {
    const JobRow& job = status_.jobs[index];
    const std::vector<JobSpan> spans = spans_of(run_.events_of(job.job));
    Json spans_json = Json::array();
    for (const JobSpan& span : spans) {
      spans_json.push_back(to_json(span, status_.started));
      last_ = std::max(last_, span.end.value_or(span.begin));
      if (!span.node.empty()) nodes_.insert(span.node);
    }
    Json curves = Json::array();
    for (const Curve& curve : reported_[index].curves) {
      curves.push_back(to_json(thinned(curve, max_points_), status_.started));
    }
    const auto& training = reported_[index].training;
    const bool has_trained = training && training->training_s > 0;
    return without_nulls(
        {{"name", job.job},
         {"step", index < plan_.jobs.size() ? plan_.jobs[index].step : 0},
         {"state", name(job.state)},
         {"spans", std::move(spans_json)},
         {"attempt", or_null(job.attempt)},
         {"id", or_null(job.backend_id)},
         {"node", or_null(job.node)},
         {"exit", json_of(job.exit)},
         {"reason", or_null(job.reason)},
         {"metrics", filled_or_null(metrics_of(plan_, index, job))},
         {"curves", filled_or_null(std::move(curves))},
         {"pictures", filled_or_null(pictures_json(job))},
         {"advice", filled_or_null(advice_for(job, spans, plan_.profile.scheduler != "local"))},
         {"asked", job.asked ? without_nulls(asked_json(job)) : Json()},
         {"used", job.usage ? used_json(job, plan_.profile.scheduler) : Json()},
         {"training", has_trained ? to_json(*training) : Json()}});
  }

  /// The PNG files among a job's outputs, embedded as data.
  Json pictures_json(const JobRow& job) {
    Json pictures = Json::array();
    for (const auto& [name, value] : job.outputs.items()) {
      const std::filesystem::path file = value.is_string() ? value.get<std::string>() : "";
      std::error_code missing;
      const uintmax_t bytes = std::filesystem::file_size(file, missing);
      if (file.extension() != ".png" || missing || bytes > picture_bytes_left_) continue;
      picture_bytes_left_ -= bytes;
      pictures.push_back(
          {{"name", name}, {"src", "data:image/png;base64," + base64(read_file(file, bytes))}});
    }
    return pictures;
  }

  Json steps_json() const {
    std::map<std::string, size_t> places;
    for (size_t step = 0; step < plan_.workflow.steps.size(); ++step) {
      places[plan_.workflow.steps[step].name] = step;
    }
    Json steps = Json::array();
    for (size_t index = 0; index < plan_.workflow.steps.size(); ++index) {
      const Step& step = plan_.workflow.steps[index];
      Json needs = Json::array();
      for (const std::string& parent : step.needs) {
        const size_t place = places.at(parent);
        needs.push_back({place, job_for_job(uint32_t(index), uint32_t(place))});
      }
      steps.push_back(
          {{"name", step.name}, {"kind", kind_name(step)}, {"needs", std::move(needs)}});
    }
    return steps;
  }

  /// Whether each job of a step waits for exactly one of several jobs of its parent.
  bool job_for_job(uint32_t child, uint32_t parent) const {
    const auto& jobs = plan_.jobs;
    if (std::ranges::count(jobs, parent, &PlannedJob::step) < 2) return false;
    const auto first = std::ranges::find(jobs, child, &PlannedJob::step);
    if (first == jobs.end()) return false;
    for (const JobRange& range : plan_.graph.parents(uint32_t(first - jobs.begin()))) {
      if (jobs[range.first].step == parent) return range.count == 1;
    }
    return false;
  }

  Json provenance_json() const {
    Json images = Json::object();
    for (const Image& image : plan_.workflow.images) {
      images[image.name] = image.from + (image.digest.empty() ? "" : " " + image.digest.text());
    }
    Json files = Json::object();
    for (const auto& [file, hash] : plan_.files) {
      if (files.size() < kMostFiles) files[file] = hash;
    }
    const Json frozen = read_json_file(plan_.directory / "plan.json", kPlanLimits);
    return {{"dlflow", frozen.value("dlflow", "?")},
            {"scheduler", plan_.profile.scheduler},
            {"params", plan_.workflow.params},
            {"text", plan_.workflow.text},
            {"workflow_sha256", sha256_hex(plan_.workflow.text)},
            {"images", std::move(images)},
            {"files", std::move(files)},
            {"nodes", nodes_}};
  }

  const ReportedRun& run_;
  const Plan& plan_;
  const RunStatus& status_;
  const std::vector<Reported>& reported_;
  size_t max_points_;
  Time now_;
  Time last_{};
  uintmax_t picture_bytes_left_ = kMostPictureBytes;
  std::set<std::string> nodes_;
};

Json to_json(const ComparedJobs& jobs) {
  constexpr size_t kMostValues = 100;
  Json metrics = Json::object();
  for (const auto& [name, estimate] : jobs.metrics) {
    Json values = Json::array();
    for (const double value : estimate.values) {
      if (values.size() < kMostValues) values.push_back(rounded(value));
    }
    Json& metric = metrics[name];
    metric = {{"n", estimate.values.size()},
              {"mean", rounded(estimate.mean)},
              {"values", std::move(values)}};
    if (!estimate.interval) continue;
    metric["low"] = rounded(estimate.interval->first);
    metric["high"] = rounded(estimate.interval->second);
  }
  return {{"run", jobs.run},
          {"job", jobs.job},
          {"matrix", jobs.matrix},
          {"metrics", std::move(metrics)}};
}

/// The names of all metrics, in the order in which the page shows them.
std::vector<std::string> ordered_metrics(std::span<const Result> results) {
  std::set<std::string> names;
  std::vector<std::string> named;
  for (const Result& result : results) {
    for (const auto& [name, value] : result.metrics.items()) names.insert(name);
    for (const std::string& name : result.named) {
      if (std::ranges::find(named, name) == named.end()) named.push_back(name);
    }
  }
  return in_metric_order({names.begin(), names.end()}, named);
}

}  // namespace

Json report_data(std::span<const ReportedRun> runs, Time now) {
  const AllReported reported = read_all(runs);
  Json list = Json::array();
  std::vector<Result> results;
  for (size_t run = 0; run < runs.size(); ++run) {
    list.push_back(RunJson(runs[run], reported.by_run[run], reported.points_of_curve, now).json());
    for (Result& result : results_of(runs[run].plan, runs[run].status, "")) {
      results.push_back(std::move(result));
    }
  }
  remove_repeated(results);
  Json comparison = Json::array();
  for (const ComparedJobs& jobs : compare(results)) comparison.push_back(to_json(jobs));
  const std::vector<std::string> metrics = ordered_metrics(results);
  std::vector<std::string> largest;
  std::ranges::copy_if(metrics, std::back_inserter(largest), [&results](const std::string& name) {
    return largest_first(results, name);
  });
  return {{"dlflow", DLFLOW_VERSION}, {"made", to_rfc3339(now)},
          {"runs", std::move(list)},  {"metrics", metrics},
          {"largest", largest},       {"comparison", std::move(comparison)}};
}

}  // namespace dlflow
