#include "engine/report/trace.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/file.h"
#include "base/not_finite.h"
#include "base/parse_json.h"
#include "engine/plan/run_directory.h"
#include "engine/report/job_words.h"
#include "engine/report/spans.h"

namespace dlflow {
namespace {

constexpr int kRunProcess = 1;
constexpr int kFirstProcess = 2;
constexpr uint64_t kMostTimelineBytes = uint64_t{256} << 20;  ///< per timeline
constexpr JsonLimits kTimelineLimits{.max_depth = 16, .max_bytes = kMostTimelineBytes};

/// Reads a timeline.json; nothing if it is missing or not one.
std::optional<Json> read_timeline(const std::filesystem::path& file) {
  std::error_code none;
  const uint64_t bytes = std::filesystem::file_size(file, none);
  if (none || bytes > kMostTimelineBytes) return std::nullopt;
  Json json = parse_json(read_file(file), kTimelineLimits);
  if (!json.is_object() || !json.value("traceEvents", Json()).is_array()) return std::nullopt;
  return json;
}

/// The timelines that an attempt has: one of all ranks, or of each rank of a PyTorch script its
/// own.
std::vector<std::filesystem::path> timelines_in(const std::filesystem::path& attempt) {
  std::vector<std::filesystem::path> files;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(attempt, none)) {
    const std::string file = entry.path().filename();
    if (file.starts_with("timeline") && file.ends_with(".json")) files.push_back(entry.path());
  }
  std::ranges::sort(files, {}, [](const auto& file) {
    return std::pair(file.native().size(), file.native());  // by ranks
  });
  return files;
}

std::string text_in(const Json& object, const char* key) {
  const Json text = object.is_object() ? object.value(key, Json()) : Json();
  return text.is_string() ? text.get<std::string>() : "";
}

class Trace {
 public:
  Trace(const ReportedRun& run, Time now) : run_(run), began_(run.status.started), now_(now) {}

  std::string text() {
    name_process(kRunProcess, "run " + run_.status.run, 0);
    int process = kFirstProcess;
    const auto& jobs = run_.status.jobs;
    for (const std::span<const JobRow> step : by_step(jobs)) add_step(process++, step);
    add_counters();
    next_process_ = process;
    for (const JobRow& job : jobs) add_timelines(job);
    return R"({"displayTimeUnit": "ms", "otherData": )" +
           Json{{"run", run_.status.run}, {"began", to_rfc3339(began_)}}.dump() +
           ", \"traceEvents\": [\n" + events_ + "\n]}\n";
  }

 private:
  /// A job's pass, which takes a row of its step.
  struct Pass {
    const JobRow* job;
    JobSpan span;
  };

  double microseconds(Time time) const { return double((time - began_).count()) * 1000; }

  void add(const Json& event) {
    if (!events_.empty()) events_ += ",\n";
    events_ += event.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  void name_process(int process, const std::string& name, int place) {
    add({{"ph", "M"}, {"name", "process_name"}, {"pid", process}, {"args", {{"name", name}}}});
    add({{"ph", "M"},
         {"name", "process_sort_index"},
         {"pid", process},
         {"args", {{"sort_index", place}}}});
  }

  void add_step(int process, std::span<const JobRow> jobs) {
    std::vector<Pass> passes;
    for (const JobRow& job : jobs) {
      for (JobSpan& span : spans_of(run_.events_of(job.job))) {
        count(span);
        if (span.running) passes.push_back({&job, std::move(span)});
      }
    }
    if (passes.empty()) return;
    name_process(process, "step " + jobs.front().step, process);
    std::ranges::stable_sort(passes, {}, [](const Pass& pass) { return pass.span.begin; });
    std::vector<Time> free_at;  // by row
    for (const Pass& pass : passes) {
      const auto place = std::find_if(free_at.begin(), free_at.end(),
                                      [&](Time time) { return time <= pass.span.begin; });
      const size_t thread = size_t(place - free_at.begin());
      if (place == free_at.end()) free_at.emplace_back();
      free_at[thread] = end_of(pass.span);
      add_pass(process, int(thread) + 1, pass);
    }
  }

  Time end_of(const JobSpan& span) const { return span.end.value_or(std::max(now_, span.begin)); }

  void add_pass(int process, int thread, const Pass& pass) {
    const auto& [job, span] = pass;
    Json args = {{"attempt", span.attempt}, {"pass", span.pass}, {"node", span.node}};
    args["outcome"] = !span.outcome                       ? "runs"
                      : *span.outcome == JobState::Queued ? "requeued"
                                                          : name(*span.outcome);
    if (!span.reason.empty()) args["cause"] = span.reason;
    if (!job->backend_id.empty()) args["id"] = job->backend_id;
    add({{"ph", "X"},
         {"name", job->job},
         {"pid", process},
         {"tid", thread},
         {"ts", microseconds(span.begin)},
         {"dur", microseconds(end_of(span)) - microseconds(span.begin)},
         {"args", std::move(args)}});
  }

  void count(const JobSpan& span) {
    auto& changes = span.running ? running_ : waiting_;
    ++changes[span.begin];
    if (span.end) --changes[*span.end];
  }

  void add_counters() {
    for (const auto& [name, changes] :
         {std::pair("jobs that wait", &waiting_), {"jobs that run", &running_}}) {
      int jobs = 0;
      for (const auto& [time, change] : *changes) {
        jobs += change;
        add({{"ph", "C"},
             {"name", name},
             {"pid", kRunProcess},
             {"ts", microseconds(time)},
             {"args", {{"jobs", jobs}}}});
      }
    }
  }

  void add_timelines(const JobRow& job) {
    if (job.attempt == 0) return;
    for (const int attempt : attempts(job.directory)) {
      for (const auto& file : timelines_in(attempt_directory(job.directory, attempt))) {
        if (const auto timeline = read_timeline(file)) add_timeline(job, attempt, *timeline);
      }
    }
  }

  /// Adds an attempt's timeline. Each pass overwrites the file, so it belongs to the last pass.
  void add_timeline(const JobRow& job, int attempt, const Json& timeline) {
    const auto began_at = number_at(timeline.value("otherData", Json::object()), "began_at");
    const double offset = began_at
                              ? *began_at * 1e6 - double(began_.time_since_epoch().count()) * 1e3
                              : microseconds(begin_of_last_pass(job, attempt));
    std::map<int, int> processes;  // rank -> process
    for (const Json& event : timeline.at("traceEvents")) {
      const auto rank = number_at(event, "pid");
      if (!rank || *rank < 0 || *rank > 1e6) continue;
      const auto [process, is_new] = processes.try_emplace(int(*rank), next_process_);
      next_process_ += is_new;
      add_event(job, process->second, event, offset);
    }
  }

  void add_event(const JobRow& job, int process, const Json& event, double offset) {
    const std::string kind = text_in(event, "ph"), name = text_in(event, "name");
    const double thread = number_at(event, "tid").value_or(0);
    if (kind == "M" && name == "process_name") {
      return name_process(
          process, job.job + " " + text_in(event.value("args", Json::object()), "name"), process);
    }
    if (kind == "M") {
      add({{"ph", "M"},
           {"name", name},
           {"pid", process},
           {"tid", thread},
           {"args", event.value("args", Json::object())}});
      return;
    }
    const auto begin = number_at(event, "ts"), length = number_at(event, "dur");
    if (kind != "X" || !begin || !length) return;
    Json span = {{"ph", "X"},     {"name", name},          {"pid", process},
                 {"tid", thread}, {"ts", *begin + offset}, {"dur", *length}};
    if (const auto bytes = number_at(event.value("args", Json::object()), "bytes")) {
      span["args"] = {{"bytes", *bytes}};
    }
    add(span);
  }

  Time begin_of_last_pass(const JobRow& job, int attempt) const {
    Time begin = began_;
    for (const JobSpan& span : spans_of(run_.events_of(job.job))) {
      if (span.running && span.attempt == attempt) begin = span.begin;
    }
    return begin;
  }

  const ReportedRun& run_;
  Time began_, now_;
  std::map<Time, int> waiting_, running_;  // the change of the number at each time
  int next_process_ = kFirstProcess;
  std::string events_;
};

}  // namespace

std::string chrome_trace(const ReportedRun& run, Time now) { return Trace(run, now).text(); }

}  // namespace dlflow
