#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/not_finite.h"
#include "base/units.h"
#include "engine/report/curves.h"
#include "engine/report/spans.h"
#include "engine/track/track.h"

namespace dlflow {
namespace {

/// Replaces characters other than letters, digits and "_", for a name.
std::string as_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    name += plain ? c : '_';
  }
  return name;
}

std::string label_value(std::string_view text) {
  std::string value;
  for (const char c : text) {
    if (c == '\\' || c == '"') value += '\\';
    if (c == '\n') {
      value += "\\n";
    } else {
      value += c;
    }
  }
  return value;
}

std::string print_sample(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return print_number("%.17g", value);
}

class Exposition {
 public:
  void family(const std::string& name, const std::string& help, const char* unit = "") {
    name_ = name;
    text_ += "# TYPE " + name + " gauge\n";
    if (*unit != '\0') text_ += "# UNIT " + name + " " + unit + "\n";
    text_ += "# HELP " + name + " " + help + "\n";
  }
  void sample(const std::string& labels, double value) {
    text_ += name_ + "{" + labels + "} " + print_sample(value) + "\n";
  }
  std::string end() && { return std::move(text_) + "# EOF\n"; }

 private:
  std::string name_, text_;
};

std::string label(const char* name, std::string_view value) {
  return std::string(name) + "=\"" + label_value(value) + "\"";
}

/// The latest numbers of a job: those at its end, otherwise those of its last lines.
std::map<std::string, double> latest_metrics(const JobRow& job) {
  std::map<std::string, double> latest;
  if (job.state == JobState::Running) {
    for (const Curve& curve : read_reported_job(job.directory).curves) {
      latest[curve.name] = curve.points.back().value;
    }
  }
  for (const auto& [name, value] : job.metrics.items()) {
    if (const auto number = number_of(value)) latest[name] = *number;
  }
  return latest;
}

}  // namespace

std::string openmetrics(const ReportedRun& run, Time now) {
  const RunStatus& status = run.status;
  const std::string of_run = label("run", status.run) + "," + label("workflow", status.workflow) +
                             "," + label("profile", status.profile);
  Exposition text;
  text.family("dlflow_run_jobs", "Number of jobs of the run in each state.");
  std::map<std::string_view, int> counts;
  for (const JobRow& job : status.jobs) ++counts[name(job.state)];
  for (const auto& [state, count] : counts)
    text.sample(of_run + "," + label("state", state), count);
  text.family("dlflow_run_seconds",
              "How long the run took, or has been running, without idle time.", "seconds");
  text.sample(of_run, double(status.worked(now).count()) / 1000);
  const auto of_job = [&](const JobRow& job) {
    return label("run", status.run) + "," + label("step", job.step) + "," + label("job", job.job);
  };
  text.family("dlflow_job_running_seconds", "How long the job ran, all passes of all attempts.",
              "seconds");
  for (const JobRow& job : status.jobs) {
    std::chrono::milliseconds ran{0};
    for (const JobSpan& span : spans_of(run.events_of(job.job))) {
      if (span.running) ran += std::max(span.end.value_or(now), span.begin) - span.begin;
    }
    if (ran.count() > 0) text.sample(of_job(job), double(ran.count()) / 1000);
  }
  std::map<std::string, std::vector<std::pair<std::string, double>>> metrics;  // name -> samples
  for (const JobRow& job : status.jobs) {
    std::set<std::string> seen;  // two names of a job may map to one
    for (const auto& [metric, value] : latest_metrics(job)) {
      const std::string family = "dlflow_job_metric_" + as_name(metric);
      if (seen.insert(family).second) metrics[family].emplace_back(of_job(job), value);
    }
  }
  for (const auto& [family, samples] : metrics) {
    text.family(family, "What the job reported last.");
    for (const auto& [labels, value] : samples) text.sample(labels, value);
  }
  return std::move(text).end();
}

}  // namespace dlflow
