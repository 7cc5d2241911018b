#include "engine/report/run_list.h"

#include "tests/support/catch.h"
#include "tests/support/report_values.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

JobRow job_row(const std::string& step, JobState state, const std::string& directory = "") {
  JobRow job = row_of(step, state);
  job.attempt = 1;
  job.directory = directory;
  return job;
}

RunSummary summary(const std::string& run, RunState state, std::map<JobState, size_t> jobs) {
  RunSummary made;
  made.run = run;
  made.profile = "local";
  made.state = state;
  made.started = kStart;
  made.jobs = std::move(jobs);
  return made;
}

RunStatus status_in(RunState state, std::vector<JobRow> jobs) {
  RunStatus status;
  status.state = state;
  status.jobs = std::move(jobs);
  return status;
}

}  // namespace

TEST_CASE("states that look the same are counted together in the list", "[run_list]") {
  const std::vector<RunSummary> runs = {
      summary("a-1", RunState::Failed,
              {{JobState::Failed, 2}, {JobState::TimedOut, 1}, {JobState::Cached, 4}}),
      summary("long-name-1", RunState::Succeeded, {{JobState::Succeeded, 1}})};
  CHECK(run_list(runs, {{"a-1", "train failed"}}, kStart + 90s, kPlain) ==
        "RUN          ON     STATE      STEPS      AGE    NOW\n"
        "a-1          local  failed     4/7 ✔ 3 ✘  1 min  train failed\n"
        "long-name-1  local  succeeded  1/1 ✔      1 min\n");
}

TEST_CASE("only the state of a run is coloured in the list", "[run_list]") {
  const std::vector<RunSummary> runs = {
      summary("a-1", RunState::Failed, {{JobState::Failed, 1}}),
      summary("a-2", RunState::Succeeded, {{JobState::Succeeded, 1}})};
  CHECK(run_list(runs, {}, kStart + 1s, {.color = true, .utf8 = false}) ==
        "RUN  ON     STATE      STEPS      AGE  NOW\n"
        "a-1  local  \033[31mfailed   \033[0m  0/1 + 1 x  1 s\n"
        "a-2  local  \033[32msucceeded\033[0m  1/1 +      1 s\n");
}

TEST_CASE("a run shows its current work, or the reason of its end", "[run_list]") {
  CHECK(
      now_text(status_in(RunState::Failed,
                         {job_row("data", JobState::Succeeded), job_row("train", JobState::Blocked),
                          job_row("fit", JobState::TimedOut), job_row("best", JobState::Failed)}),
               kPlain) == "fit timed-out");
  CHECK(now_text(status_in(RunState::Cancelled, {job_row("data", JobState::Cancelled)}), kPlain) ==
        "data cancelled");
  CHECK(now_text(status_in(RunState::Succeeded, {job_row("data", JobState::Skipped)}), kPlain)
            .empty());
  CHECK(
      now_text(status_in(RunState::Running, {job_row("data", JobState::Planned)}), kPlain).empty());

  RunStatus damaged = status_in(RunState::Running, {job_row("data", JobState::Failed)});
  damaged.damaged = true;
  damaged.problem = "plan.json is not there";
  CHECK(now_text(damaged, kPlain) == "damaged: plan.json is not there");
}

TEST_CASE("the first running job shows its progress", "[run_list]") {
  const test::TempDir folder;
  const std::string quiet = folder.path() / "quiet";
  const std::string loud = folder.path() / "loud";
  CHECK(now_text(status_in(RunState::Running, {job_row("data", JobState::Failed, quiet),
                                               job_row("fit", JobState::Running, quiet),
                                               job_row("train", JobState::Running, loud)}),
                 kPlain) == "fit");
  folder.write("loud/attempt-1/metrics.jsonl",
               "{\"epoch\":2,\"epochs\":3,\"progress\":0.5,\"bytes\":1024,\"total_bytes\":2048}\n");
  CHECK(now_text(status_in(RunState::Running, {job_row("train", JobState::Running, loud)}),
                 kPlain) == "train epoch 2/3  1.0 KiB");
  folder.write("loud/attempt-1/metrics.jsonl", "{\"seen\":2}\n");
  CHECK(now_text(status_in(RunState::Running, {job_row("train", JobState::Running, loud)}),
                 kPlain) == "train");
}

TEST_CASE("only a running job has progress", "[progress]") {
  const test::TempDir folder;
  folder.write("train/attempt-1/metrics.jsonl", "{\"epoch\":2}\n");
  const std::string directory = folder.path() / "train";
  CHECK(now_text(status_in(RunState::Running, {job_row("train", JobState::Queued, directory)}),
                 kPlain)
            .empty());
}
