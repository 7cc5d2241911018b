#include "engine/report/run_table.h"

#include "base/text.h"
#include "engine/report/describe.h"
#include "engine/report/status_table.h"
#include "tests/support/catch.h"
#include "tests/support/report_values.h"

using namespace dlflow;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

RunView view_of(std::vector<JobRow> jobs) {
  RunView view;
  view.status.run = "demo-7f3a";
  view.status.workflow = "demo";
  view.status.profile = "local";
  view.status.started = kStart;
  view.status.jobs = std::move(jobs);
  view.needs = {{"train", {"data"}}, {"best", {"train"}}};
  return view;
}

}  // namespace

TEST_CASE("the live table shows running jobs, and the reason why others wait", "[run_table]") {
  RunView demo = view_of({row_of("data", JobState::Succeeded), row_of("train", JobState::Running),
                          row_of("best", JobState::Planned)});
  demo.status.jobs[0].metrics = {{"bytes", 30931288}, {"files", 4}};
  demo.progress["train"] = {{"epoch", 2}, {"epochs", 3}, {"images_per_s", 3980}};
  const auto lines = live_table(demo, kStart + 31s, 20, kPlain);
  CHECK(lines ==
        std::vector<std::string>{"  data      ✔ succeeded     0:02  29.5 MiB staged, 4 files",
                                 "  train     ▶ running       0:31  epoch 2/3",
                                 "                                  3,980 img/s",
                                 "  best      · waits for train"});
}

TEST_CASE("many elements become one line, and no table is higher than the screen", "[run_table]") {
  std::vector<JobRow> jobs;
  for (int i = 0; i < 250; ++i) {
    const JobState state = i < 100   ? JobState::Succeeded
                           : i < 102 ? JobState::Running
                                     : JobState::Planned;
    jobs.push_back(row_of("sweep", state, "i=" + std::to_string(i)));
  }
  const auto lines = live_table(view_of(jobs), kStart + 5s, 3, kPlain);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].find("100/250 done, 2 running") != std::string::npos);
  for (size_t rows = 1; rows < 30; ++rows) {
    CHECK(live_table(view_of(jobs), kStart, rows, kPlain).size() <= rows);
  }
}

TEST_CASE("every line of the live table fits into 80 columns", "[run_table]") {
  RunView demo = view_of({row_of("train", JobState::Failed)});
  demo.status.jobs[0].reason = "exit 3: " + std::string(300, 'x') + " and more words behind it";
  for (const auto& line : live_table(demo, kStart, 20, kPlain)) CHECK(display_width(line) <= 80);
}

TEST_CASE("a bar is short beside a long name, and nothing is cut off", "[run_table]") {
  RunView demo = view_of({row_of("train", JobState::Running, "model=lenet")});
  demo.progress["train[model=lenet]"] = {
      {"epoch", 2}, {"epochs", 3}, {"progress", 0.5}, {"loss", 0.312}};
  CHECK(live_table(demo, kStart + 31s, 20, kPlain) ==
        std::vector<std::string>{
            "  train[model=lenet]  ▶ running       0:31  epoch 2/3 ━━━━━╺━━━━ 50%  loss 0.312"});
}

TEST_CASE("the status of a failed run names the cause and the next command", "[run_table]") {
  RunView demo =
      view_of({row_of("data", JobState::Succeeded), row_of("train", JobState::Failed, "lr=0.5"),
               row_of("best", JobState::Blocked)});
  demo.status.state = RunState::Failed;
  demo.status.ended = kStart + 10s;
  demo.status.jobs[1].reason = "exit 3: loss is NaN at step 412";
  demo.status.jobs[1].backend_id = "4411";
  demo.status.jobs[1].node = "n2";
  const std::string text = status_table(demo, kStart + 34min, kPlain);
  CHECK(text ==
        "demo-7f3a on local: failed 33 min ago, 1 of 3 jobs succeeded\n"
        "\n"
        "STEP           JOB   STATE      TRY  TIME  NODE  DETAIL\n"
        "data           -     succeeded  1    0:02  -\n"
        "train[lr=0.5]  4411  failed     1    0:02  n2    exit 3: loss is NaN at step 412\n"
        "best           -     blocked    1    0:02  -\n"
        "\n"
        "Why:    dlflow logs demo-7f3a 'train[lr=0.5]'\n"
        "Again:  dlflow resubmit demo-7f3a\n");
  CHECK(describe_end(demo.status) ==
        "demo-7f3a failed in 0:10: train[lr=0.5] failed, exit 3: loss is NaN at step 412");
}

TEST_CASE("a run that succeeded ends with its last accuracy", "[describe]") {
  RunView demo =
      view_of({row_of("train", JobState::Succeeded), row_of("evaluate", JobState::Succeeded)});
  demo.status.state = RunState::Succeeded;
  demo.status.ended = kStart + 62s;
  demo.status.jobs[0].metrics = {{"accuracy", 0.8}};
  demo.status.jobs[1].metrics = {{"accuracy", 0.9071}};
  CHECK(describe_end(demo.status) == "demo-7f3a succeeded in 1:02: accuracy 0.907");
}

TEST_CASE("a sweep that succeeded ends with its best job, not its last", "[describe]") {
  RunView demo =
      view_of({row_of("train", JobState::Succeeded, "lr=0.1"),
               row_of("train", JobState::Succeeded, "lr=0.2"),
               row_of("train", JobState::Failed, "lr=0.3"), row_of("best", JobState::Succeeded)});
  demo.status.state = RunState::Succeeded;
  demo.status.ended = kStart + 62s;
  auto& jobs = demo.status.jobs;
  const auto end = [&demo] { return describe_end(demo.status).substr(29); };
  jobs[0].metrics = {{"accuracy", 0.9}, {"loss", 0.1}};
  jobs[1].metrics = {{"accuracy", 0.8}, {"loss", 0.2}};
  jobs[2].metrics = {{"accuracy", 1.0}};  // its step has allow_failure
  CHECK(end() == "accuracy 0.900 (train[lr=0.1], the best of 2)");
  jobs[1].metrics = {{"accuracy", "NaN"}};
  CHECK(end() == "accuracy 0.900 (train[lr=0.1], the best of 2)");
  jobs[0].metrics = {{"loss", 0.3}};
  jobs[1].metrics = {{"loss", 0.2}};
  CHECK(end() == "loss 0.200 (train[lr=0.2], the best of 2)");
  jobs[0].metrics = Json::object();
  CHECK(end() == "loss 0.200");
}

namespace {

/// Returns `count` elements of the step "sweep", in `state`.
std::vector<JobRow> rows_of_sweep(int count, JobState state) {
  std::vector<JobRow> jobs;
  for (int i = 0; i < count; ++i) jobs.push_back(row_of("sweep", state, "i=" + std::to_string(i)));
  return jobs;
}

std::vector<std::string> live(const std::vector<JobRow>& jobs, size_t rows,
                              const Style& style = {.color = false, .utf8 = false, .width = 80}) {
  return live_table(view_of(jobs), kStart + 5s, rows, style);
}

}  // namespace

TEST_CASE("up to twelve elements have their own lines, and more share one", "[run_table]") {
  CHECK(live(rows_of_sweep(12, JobState::Succeeded), 30).size() == 12);
  CHECK(live(rows_of_sweep(13, JobState::Succeeded), 30) ==
        std::vector<std::string>{"  sweep     + ================ 13/13 done"});
  CHECK(live(rows_of_sweep(13, JobState::Planned), 30) ==
        std::vector<std::string>{"  sweep     . ---------------- 0/13 done"});
  std::vector<JobRow> jobs = rows_of_sweep(16, JobState::Succeeded);
  for (size_t i = 4; i < 12; ++i) jobs[i].state = JobState::Planned;
  jobs[3].state = JobState::Running;
  jobs[3].ended.reset();
  jobs[2].state = JobState::Failed;
  jobs[2].reason = "exit 3";
  CHECK(live(jobs, 30) ==
        std::vector<std::string>{"  sweep       x ======>--------- 6/16 done, 1 running, 1 failed",
                                 "  sweep[i=2]  x failed        0:02  exit 3",
                                 "  sweep[i=3]  > running       0:05  "});
}

TEST_CASE("a cause is shown once, and wrapped beside the name of an element", "[run_table]") {
  std::vector<JobRow> jobs = rows_of_sweep(16, JobState::Succeeded);
  for (size_t i = 2; i < 5; ++i) {
    jobs[i].state = JobState::Failed;
    jobs[i].reason = "exit 1: error: the learning rate is far too large: it diverged";
  }
  jobs[5].state = JobState::Failed;
  jobs[5].reason = "exit 3";
  CHECK(live(jobs, 30) ==
        std::vector<std::string>{
            "  sweep       x ============>--- 12/16 done, 4 failed",
            "  sweep[i=2]  x failed        0:02  exit 1: error: the learning rate is far too",
            "                                    large: it diverged",
            "  sweep[i=3]  x failed        0:02  the same",
            "  sweep[i=4]  x failed        0:02  the same",
            "  sweep[i=5]  x failed        0:02  exit 3"});
  RunView run = view_of(jobs);
  run.status.state = RunState::Failed;
  CHECK(describe_end(run.status) ==
        "demo-7f3a failed: 4 of 16 jobs failed, the first: sweep[i=2] failed, " + jobs[2].reason);
  for (JobRow& job : jobs) job.state = JobState::Cancelled;
  for (JobRow& job : jobs) job.started.reset();
  CHECK(live(jobs, 30) ==
        std::vector<std::string>{"  sweep     ! ---------------- 0/16 done, 16 cancelled",
                                 "  16 cancelled before they began"});
}

TEST_CASE("the least important line is omitted first", "[run_table]") {
  const std::vector<JobRow> jobs = {
      row_of("wait-1", JobState::Queued), row_of("done", JobState::Succeeded),
      row_of("runs", JobState::Running), row_of("fails", JobState::Failed),
      row_of("wait-2", JobState::Planned)};
  const auto names = [&](size_t rows) {
    std::string text;
    for (const std::string& line : live(jobs, rows)) {
      text += line.starts_with("  and") ? trim(line) : split(line, ' ').at(2) + " ";
    }
    return text;
  };
  CHECK(names(5) == "wait-1 done runs fails wait-2 ");
  CHECK(names(4) == "done runs fails and 2 more");
  CHECK(names(3) == "runs fails and 3 more");
  CHECK(names(2) == "runs and 4 more");
  CHECK(names(1) == "and 5 more");
}

TEST_CASE("the last of several unimportant lines is left out first", "[run_table]") {
  const std::vector<JobRow> jobs = {
      row_of("one", JobState::Queued), row_of("two", JobState::Queued),
      row_of("three", JobState::Queued), row_of("four", JobState::Queued)};
  const auto lines = live(jobs, 3);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].starts_with("  one"));
  CHECK(lines[1].starts_with("  two"));
  CHECK(lines[2] == "  and 2 more");
}

TEST_CASE("a job names each step that it waits for once", "[run_table]") {
  RunView demo =
      view_of({row_of("data", JobState::Running, "a"), row_of("data", JobState::Queued, "b"),
               row_of("more", JobState::Succeeded), row_of("other", JobState::Planned),
               row_of("train", JobState::Submitting), row_of("best", JobState::Planned)});
  demo.needs = {{"train", {"data", "more"}}, {"best", {"data", "train"}}};
  const auto lines = live_table(demo, kStart, 20, {.color = false, .utf8 = false, .width = 80});
  REQUIRE(lines.size() == 6);
  CHECK_THAT(lines[1], Catch::EndsWith("waits for a free place"));
  CHECK_THAT(lines[3], Catch::EndsWith("waits for a free place"));
  CHECK_THAT(lines[4], Catch::EndsWith("waits for data"));
  CHECK_THAT(lines[5], Catch::EndsWith("waits for data, train"));
  const auto best_with = [&demo](const char* reason) {
    demo.status.jobs[5].reason = reason;
    return live_table(demo, kStart, 20, {.color = false, .utf8 = false, .width = 80}).back();
  };
  CHECK_THAT(best_with("run again"), Catch::EndsWith("run again; waits for data, train"));
  CHECK_THAT(best_with("waits for a node"), Catch::EndsWith(". waits for a node"));
}

TEST_CASE("jobs that an ended run never started wait for nothing", "[run_table]") {
  RunView demo = view_of({row_of("data", JobState::Failed), row_of("other", JobState::Planned)});
  demo.status.state = RunState::Failed;
  demo.status.ended = kStart + 10s;
  const std::string text = status_table(demo, kStart + 20s, kPlain);
  CHECK_THAT(text, Catch::Contains("not started: the run had ended"));
  CHECK_THAT(text, !Catch::Contains("waits for"));
}

TEST_CASE("a time wider than its column moves the text after it", "[run_table]") {
  RunView demo = view_of({row_of("train", JobState::Running)});
  const Style ascii{.color = false, .utf8 = false, .width = 80};
  CHECK(live_table(demo, kStart + 12h, 20, ascii) ==
        std::vector<std::string>{"  train     > running   12:00:00  "});
  CHECK(live_table(demo, kStart + 49h, 20, ascii) ==
        std::vector<std::string>{"  train     > running   2-01:00:00  "});
  demo.status.jobs[0].limit = 20min;
  CHECK(live_table(demo, kStart + 130s, 20, ascii) ==
        std::vector<std::string>{"  train     > running   2:10/20:00  "});
}

TEST_CASE("a skipped or running job is not shown as failed", "[run_table]") {
  const auto lines = live({row_of("a", JobState::Skipped), row_of("b", JobState::Succeeded)}, 20);
  CHECK_THAT(lines[0], Catch::Contains(". skipped"));
  CHECK(live(rows_of_sweep(13, JobState::Skipped), 30) ==
        std::vector<std::string>{"  sweep     + ================ 13/13 done"});
}
