#include "engine/track/track.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/not_finite.h"
#include "base/output_file.h"
#include "base/parse_json.h"
#include "base/process.h"
#include "base/sha256.h"
#include "base/text.h"
#include "engine/report/curves.h"
#include "engine/track/tensorboard.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// A job with something to show.
struct Tracked {
  const JobRow* job;
  const Json* element;  ///< its values of the matrix's axes
  Reported reported;
};

std::vector<Tracked> tracked_jobs(const ReportedRun& run) {
  std::vector<Tracked> tracked;
  const auto& jobs = run.status.jobs;
  for (size_t i = 0; i < jobs.size() && i < run.plan.jobs.size(); ++i) {
    if (jobs[i].attempt == 0) continue;  // a reused result is reported by the run that made it
    const PlannedJob& planned = run.plan.jobs[i];
    if (planned.name != jobs[i].job) continue;  // jobs were just added to the run
    Reported reported = read_reported_job(jobs[i].directory);
    const bool numbers = jobs[i].metrics.is_object() && !jobs[i].metrics.empty();
    if (reported.curves.empty() && !numbers) continue;
    tracked.push_back({&jobs[i], &run.plan.steps[planned.step].elements->at(planned.element),
                       std::move(reported)});
  }
  return tracked;
}

Time began(const ReportedRun& run, const JobRow& job) {
  return job.started.value_or(run.status.started);
}

Json params_of(const ReportedRun& run, const Tracked& tracked) {
  Json params = run.plan.workflow.params;
  params.update(*tracked.element);
  return params;
}

const char* mlflow_status(RunState state) {
  return state == RunState::Running     ? "RUNNING"
         : state == RunState::Succeeded ? "FINISHED"
         : state == RunState::Failed    ? "FAILED"
                                        : "KILLED";
}

const char* mlflow_status(JobState state) {
  return !is_final(state)               ? "RUNNING"
         : satisfies_dependents(state)  ? "FINISHED"
         : state == JobState::Cancelled ? "KILLED"
                                        : "FAILED";
}

/// The numbers in a job's final metrics, as curves of one point.
Reported reported_at_end(const JobRow& job) {
  Reported reported;
  for (const auto& [name, value] : job.metrics.items()) {
    const auto number = number_of(value);
    if (!number || !std::isfinite(*number)) continue;
    reported.curves.push_back({name, {{.at = job.ended, .value = *number, .line = 1}}, {}});
  }
  return reported;
}

/// Makes `content` the content of `file`, by appending if the file already holds its beginning.
void grow(const fs::path& file, const std::string& content) {
  const std::string there = read_file_if_exists(file).value_or("");
  if (there == content) return;
  make_directories(file.parent_path());
  if (!content.starts_with(there) || there.empty()) return write_file_atomic(file, content);
  FileDescriptor out(::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (out.get() < 0) throw Error(Errc::InvalidInput, "cannot write " + file.string());
  write_all(out.get(), std::string_view(content).substr(there.size()), file);
}

class Tracking {
 public:
  Tracking(const ReportedRun& run, Time now, std::chrono::milliseconds patience,
           const OpenMlflow& open_store)
      : run_(run),
        settings_(run.plan.workflow.track),
        now_(now),
        patience_(patience),
        open_store_(open_store),
        jobs_(tracked_jobs(run)) {}

  void all() {
    const auto attempt = [this](bool wanted, const std::function<void()>& work) {
      if (!wanted) return;
      try {
        work();
      } catch (const Error& error) {
        if (!problem_) problem_ = error;
      }
    };
    attempt(settings_.tensorboard, [this] { tensorboard(); });
    attempt(!settings_.mlflow.empty(), [this] { mlflow(); });
    attempt(!settings_.openmetrics.empty(),
            [this] { write_output(settings_.openmetrics, openmetrics(run_, now_)); });
    if (problem_) throw Error(*problem_);
  }

 private:
  const fs::path& folder() const { return run_.plan.directory; }

  /// "train/lr=0.1": the job's folder relative to RUN/steps.
  static fs::path place_of(const JobRow& job) {
    const std::string element = std::string(job.job.element());
    return element.empty() ? fs::path(job.step) : fs::path(job.step) / element;
  }

  void tensorboard() {
    for (const Tracked& tracked : jobs_) {
      const Time start = began(run_, *tracked.job);
      // The name has the run's start time; TensorBoard recognises event files by "tfevents".
      const std::string name =
          "events.out.tfevents." + std::to_string(to_ms(run_.status.started) / 1000) + ".dlflow";
      const bool has_curves = !tracked.reported.curves.empty();
      if (!has_curves && !is_final(tracked.job->state)) continue;
      grow(folder() / "tensorboard" / place_of(*tracked.job) / name,
           tensorboard_events(has_curves ? tracked.reported : reported_at_end(*tracked.job),
                              std::min(start, run_.status.started)));
    }
  }

  /// RUN/mlflow.json stores, for each job, the store's id and the number of lines sent.
  void mlflow() {
    const fs::path memory_file = folder() / "mlflow.json";
    Json memory = Json::object();
    if (const auto text = read_file_if_exists(memory_file)) memory = parse_json(*text);
    if (!memory.is_object() || memory.value("store", "") != settings_.mlflow)
      memory = {{"store", settings_.mlflow}};
    Json& jobs = memory["jobs"];
    if (!jobs.is_object()) jobs = Json::object();
    const auto remember = [&] { write_file_atomic(memory_file, memory.dump()); };
    const auto store = open_store_(settings_.mlflow, patience_);
    store->use_experiment(run_.status.workflow);
    const std::string parent = put(*store, whole_run(), jobs[""], remember);
    remember();
    for (const Tracked& tracked : jobs_) {
      Json& known = jobs[tracked.job->job];
      const std::string ended = tracked.job->ended ? to_rfc3339(*tracked.job->ended) : "";
      const auto metrics =
          new_metrics(tracked, known.is_object() ? known.value("lines", size_t{0}) : 0);
      if (known.is_object() && metrics.empty() && known.value("ended", "") == ended) continue;
      const std::string id = put(*store, one_job(tracked, parent), known, remember);
      if (!metrics.empty()) store->log(id, metrics);
      known["lines"] = last_line(tracked.reported);
      if (is_final(tracked.job->state)) {
        store->log(id, summary(*tracked.job));
        known["ended"] = ended;
      }
      remember();
    }
  }

  /// Updates the run. Saves its id before any other request, since a failure in between would
  /// otherwise create another run the next time.
  static std::string put(MlflowStore& store, const MlflowRun& run, Json& known,
                         const std::function<void()>& remember) {
    if (!known.is_object()) known = Json::object();
    std::string id = known.value("id", "");
    if (id.empty()) {
      id = store.create(run);
      known["id"] = id;
      remember();
    }
    store.update(id, run);
    if (!known.value("described", false)) store.describe(id, run);
    known["described"] = true;
    return id;
  }

  MlflowRun whole_run() const {
    const RunStatus& status = run_.status;
    return {.name = status.run,
            .status = mlflow_status(status.state),
            .started = status.started,
            .ended = status.ended,
            .params = texts(run_.plan.workflow.params),
            .tags = {{"dlflow.run", status.run},
                     {"dlflow.profile", status.profile},
                     {"mlflow.runName", status.run}}};
  }

  MlflowRun one_job(const Tracked& tracked, const std::string& parent) const {
    const JobRow& job = *tracked.job;
    return {.name = job.job,
            .status = mlflow_status(job.state),
            .started = began(run_, job),
            .ended = is_final(job.state) ? job.ended : std::nullopt,
            .params = texts(params_of(run_, tracked)),
            .tags = {{"dlflow.run", run_.status.run},
                     {"dlflow.job", job.job},
                     {"dlflow.step", job.step},
                     {"mlflow.runName", job.job},
                     {"mlflow.parentRunId", parent}}};
  }

  static std::vector<std::pair<std::string, std::string>> texts(const Json& values) {
    std::map<std::string, std::string> all;  // MLflow rejects all if two share a name
    constexpr size_t kLongest = 6000;        // MLflow's limit
    for (const auto& [name, value] : values.items()) {
      all.emplace(mlflow_name(name), text_or_dump(value).substr(0, kLongest));
    }
    return {all.begin(), all.end()};
  }

  std::vector<MlflowMetric> new_metrics(const Tracked& tracked, size_t known_lines) const {
    std::vector<MlflowMetric> metrics;
    const Time start = began(run_, *tracked.job);
    for (const Curve& curve : tracked.reported.curves) {
      const std::string name = mlflow_name(curve.name);
      for (const CurvePoint& point : curve.points) {
        if (point.line <= known_lines) continue;
        metrics.push_back({name, point.value, point.at.value_or(start), int64_t(point.step)});
      }
    }
    return metrics;
  }

  static size_t last_line(const Reported& reported) {
    size_t last = 0;
    for (const Curve& curve : reported.curves) last = std::max(last, curve.points.back().line);
    return last;
  }

  /// The metrics for `require:`, beside the curves, so that neither hides the other.
  static std::vector<MlflowMetric> summary(const JobRow& job) {
    std::vector<MlflowMetric> metrics;
    for (const auto& [name, value] : job.metrics.items()) {
      if (const auto number = number_of(value)) {
        metrics.push_back({mlflow_name("summary." + name), *number, job.ended.value_or(Time()), 0});
      }
    }
    return metrics;
  }

  const ReportedRun& run_;
  const Trackers& settings_;
  Time now_;
  std::chrono::milliseconds patience_;
  const OpenMlflow& open_store_;
  std::vector<Tracked> jobs_;
  std::optional<Error> problem_;
};

std::optional<FileLock> lock_trackers(const ReportedRun& run) {
  return FileLock::try_acquire(run.plan.directory / "track.lock", "");
}

Json lines_of(const Reported& reported, Time start) {
  std::map<size_t, Json> lines;
  for (const Curve& curve : reported.curves) {
    for (const CurvePoint& point : curve.points) {
      Json& line = lines[point.line];
      line["step"] = point.step;
      line["epoch"] = point.epoch;
      line["at"] = unix_seconds(point.at.value_or(start));
      line["values"][curve.name] = point.value;
    }
  }
  Json list = Json::array();
  for (auto& [number, line] : lines) list.push_back(std::move(line));
  return list;
}

/// The standard input of `python -m dlflow.track`: a line for the run, and one for each job that
/// has ended.
std::string lines_for_clients(const ReportedRun& run) {
  const RunStatus& status = run.status;
  std::string text;
  const auto add = [&](const Json& line) {
    text += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  };
  add({{"run", status.run},
       {"workflow", status.workflow},
       {"profile", status.profile},
       {"directory", run.plan.directory.string()},
       {"status", mlflow_status(status.state)},
       {"began", unix_seconds(status.started)},
       {"ended", status.ended ? Json(unix_seconds(*status.ended)) : Json()},
       {"params", run.plan.workflow.params},
       {"clients", run.plan.workflow.track.clients}});
  for (const Tracked& tracked : tracked_jobs(run)) {
    const JobRow& job = *tracked.job;
    if (!is_final(job.state)) continue;
    const Time start = began(run, job);
    add({{"job", job.job},
         {"step", job.step},
         {"id", sha256_hex(status.run + "\n" + job.job).substr(0, 32)},
         {"status", mlflow_status(job.state)},
         {"began", unix_seconds(start)},
         {"ended", unix_seconds(job.ended.value_or(start))},
         {"params", params_of(run, tracked)},
         {"summary", job.metrics.is_object() ? job.metrics : Json::object()},
         {"lines", lines_of(tracked.reported, start)}});
  }
  return text;
}

}  // namespace

void track(const ReportedRun& run, Time now, std::chrono::milliseconds patience,
           const OpenMlflow& open_store) {
  if (run.plan.workflow.track.empty()) return;
  if (const auto lock = lock_trackers(run)) Tracking(run, now, patience, open_store).all();
}

std::string hand_to_clients(const ReportedRun& run) {
  const auto& clients = run.plan.workflow.track.clients;
  if (clients.empty()) return "";
  const auto lock = lock_trackers(run);
  if (!lock) return "";
  std::string packages = "dlflow-*.whl";
  for (const auto& [client, place] : clients) packages += " " + client;
  const std::string needs =
      "not all trackers have the curves; they need python3 and `pip install " + packages + "`";
  Command command;
  command.argv = {"python3", "-m", "dlflow.track"};
  command.environment = current_environment();
  if (!find_program("python3", environment_variable("PATH"))) {
    throw Error(Errc::NotFound, needs);
  }
  const Output output = dlflow::run(
      std::move(command), OutputOptions{.input = lines_for_clients(run), .collect_errors = true});
  if (output.status.code == 0) return output.text;
  throw Error(Errc::NotFound, needs + ":\n" + escaped_lines(trim(output.errors)));
}

}  // namespace dlflow
