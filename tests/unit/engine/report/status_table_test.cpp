#include "engine/report/status_table.h"

#include "base/text.h"
#include "engine/report/usage.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace std::chrono_literals;

namespace {

const Time kStart = from_rfc3339("2026-11-21T08:00:00.000Z");
const Style kPlain{.color = false, .utf8 = true, .width = 80};

JobRow row(const std::string& step, JobState state, const std::string& element = "") {
  JobRow job;
  job.step = step;
  job.element = element;
  job.job = element.empty() ? step : step + "[" + element + "]";
  job.state = state;
  job.attempt = 1;
  job.started = kStart;
  if (is_final(state)) job.ended = kStart + 20min;
  return job;
}

RunView failed_run(std::vector<JobRow> jobs) {
  RunView view;
  view.status.run = "demo-7f3a";
  view.status.profile = "alpha";
  view.status.state = RunState::Failed;
  view.status.started = kStart;
  view.status.ended = kStart + 20min;
  view.status.jobs = std::move(jobs);
  return view;
}

std::string table(const RunView& view, const StatusChoice& choice = {}) {
  return status_table(view, kStart + 34min, kPlain, choice);
}

size_t widest(const std::string& text) {
  size_t width = 0;
  for (const std::string& line : split(text, '\n')) width = std::max(width, display_width(line));
  return width;
}

}  // namespace

TEST_CASE("what a job used stands beside what it asked for", "[status_table]") {
  RunView view = failed_run({row("data", JobState::Failed), row("train", JobState::Succeeded)});
  JobRow& train = view.status.jobs[1];
  train.asked = Resources{.ranks = 2, .cpus_per_rank = 2, .memory_bytes = uint64_t{2} << 30};
  train.usage = JobUsage{.elapsed = 10min, .cpu_time = 30min, .memory_bytes = uint64_t{1} << 30};
  const std::string text = table(view, {.names = {"train"}, .usage = true});
  CHECK(text ==
        "demo-7f3a on alpha: failed 14 min ago, 1 of 2 jobs succeeded\n"
        "\n"
        "STEP   STATE      TIME   CPU TIME  CPU  MEMORY   OF       MEM\n"
        "train  succeeded  10:00  30:00     75%  1.0 GiB  2.0 GiB  50%\n"
        "\n"
        "Why:    dlflow logs demo-7f3a data\n"
        "Again:  dlflow resubmit demo-7f3a\n");
}

TEST_CASE("both tables fit into 80 columns whatever names and reasons there are",
          "[status_table]") {
  RunView view =
      failed_run({row("train", JobState::Failed, "lr=0.001,width=1024,depth=152,seed=3")});
  view.status.jobs[0].backend_id = "48151623_42";
  view.status.jobs[0].node = "alpha-gpu-0042";
  view.status.jobs[0].reason = "exit 3: loss is NaN at step 412, and that was seen on all ranks";
  view.status.unaccounted = "Slurm accounting storage is disabled";
  CHECK(widest(table(view)) <= 80);
  CHECK(widest(table(view, {.usage = true})) <= 80);
  CHECK(table(view).find("loss is NaN") != std::string::npos);
  CHECK(table(view, {.usage = true}).find("accounting storage is disabled") != std::string::npos);
}

TEST_CASE("a job that had too little is to be submitted with more", "[status_table]") {
  const auto advice = [](JobState state, const std::string& reason) {
    RunView view = failed_run({row("train", state)});
    view.status.jobs[0].reason = reason;
    view.status.jobs[0].asked = Resources{.memory_bytes = uint64_t{3} << 29, .walltime = 20min};
    const std::string text = table(view);
    return text.substr(text.find("Again:"));
  };
  CHECK(advice(JobState::Failed, "out of memory, asked for 1.5 GiB") ==
        "Again:  dlflow resubmit demo-7f3a --set memory=3GiB\n");
  CHECK(advice(JobState::TimedOut, "walltime of 20:00 reached") ==
        "Again:  dlflow resubmit demo-7f3a --set walltime=40m\n");
  CHECK(advice(JobState::Failed, "exit 3") == "Again:  dlflow resubmit demo-7f3a\n");
}

TEST_CASE("a job's own record says what its latest attempt used", "[usage]") {
  const auto event = [](int attempt, JobState state, std::chrono::minutes after) {
    JobEvent made;
    made.attempt = attempt;
    made.state = state;
    made.at = kStart + after;
    return made;
  };
  std::vector<JobEvent> events = {
      event(1, JobState::Running, 0min), event(1, JobState::Failed, 5min),
      event(2, JobState::Running, 10min), event(2, JobState::Queued, 12min),
      event(2, JobState::Running, 20min)};
  events[1].used = PassUsage{9min, 9000};
  CHECK_FALSE(recorded_usage({}).has_value());
  events[3].used = PassUsage{1min, 3000};
  events.push_back(event(2, JobState::Succeeded, 21min));
  events[5].used = PassUsage{1min, 2000};
  const auto usage = recorded_usage(events);
  REQUIRE(usage.has_value());
  CHECK(usage->elapsed == 3min);
  CHECK(usage->cpu_time == 2min);
  CHECK(usage->memory_bytes == 3000);
}
