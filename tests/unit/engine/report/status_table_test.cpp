#include "engine/report/status_table.h"

#include "base/text.h"
#include "engine/report/usage.h"
#include "tests/support/catch.h"
#include "tests/support/report_values.h"

using namespace dlflow;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

JobRow table_row(const std::string& step, JobState state, const std::string& element = "") {
  JobRow job = row_of(step, state, element);
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

JobEvent event(int attempt, JobState state, std::chrono::minutes after) {
  JobEvent made;
  made.attempt = attempt;
  made.state = state;
  made.at = kStart + after;
  return made;
}

size_t widest(const std::string& text) {
  size_t width = 0;
  for (const std::string& line : split(text, '\n')) width = std::max(width, display_width(line));
  return width;
}

}  // namespace

TEST_CASE("a job's usage stands beside its request", "[status_table]") {
  RunView view =
      failed_run({table_row("data", JobState::Failed), table_row("train", JobState::Succeeded)});
  JobRow& train = view.status.jobs[1];
  train.asked = Resources{.ranks = 2, .cpus_per_rank = 2, .memory_bytes = uint64_t{2} << 30};
  train.usage = JobUsage{.elapsed = 10min, .cpu_time = 30min, .memory_bytes = uint64_t{1} << 30};
  const std::string text = table(view, {.names = {"train"}, .usage = true});
  CHECK(text ==
        "demo-7f3a on alpha: failed 14 min ago, 1 of 2 jobs succeeded\n"
        "\n"
        "STEP   STATE      TIME   CPU TIME  CPU  MEMORY   ASKED    MEM\n"
        "train  succeeded  10:00  30:00     75%  1.0 GiB  2.0 GiB  50%\n"
        "\n"
        "Why:    dlflow logs demo-7f3a data\n"
        "Again:  dlflow resubmit demo-7f3a\n");
}

TEST_CASE("both tables fit into 80 columns with any names and reasons", "[status_table]") {
  RunView view =
      failed_run({table_row("train", JobState::Failed, "lr=0.001,width=1024,depth=152,seed=3")});
  view.status.jobs[0].backend_id = "48151623_42";
  view.status.jobs[0].node = "alpha-gpu-0042";
  view.status.jobs[0].reason = "exit 3: loss is NaN at step 412, and that was seen on all ranks";
  view.status.unaccounted = "Slurm accounting storage is disabled";
  CHECK(widest(table(view)) <= 80);
  CHECK(widest(table(view, {.usage = true})) <= 80);
  CHECK(table(view).find("loss is NaN") != std::string::npos);
  CHECK(table(view, {.usage = true}).find("accounting storage is disabled") != std::string::npos);
}

TEST_CASE("a job's own record holds the usage of its latest attempt", "[usage]") {
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

namespace {

/// Returns the lines of the table itself.
std::vector<std::string> rows_of(const std::string& text) {
  const size_t begin = text.find("\n\n") + 2;
  return split(trim(text.substr(begin, text.find("\n\n", begin) - begin)), '\n');
}

RunView array_run(size_t elements) {
  std::vector<JobRow> jobs;
  for (size_t i = 0; i < elements; ++i) {
    jobs.push_back(table_row("fit", JobState::Succeeded, "i=" + std::to_string(i)));
    jobs.back().backend_id = "812_" + std::to_string(i);
  }
  return failed_run(std::move(jobs));
}

}  // namespace

TEST_CASE("up to twelve elements are listed, and of more elements the failed ones first",
          "[status_table]") {
  CHECK(rows_of(table(array_run(12))).size() == 1 + 12);
  RunView many = array_run(20);
  CHECK(table(many) ==
        "demo-7f3a on alpha: failed 14 min ago, 20 of 20 jobs succeeded\n"
        "\n"
        "STEP     JOB  STATE      TRY  TIME  NODE  DETAIL\n"
        "fit x20  812  succeeded  -    -     -     20/20 done\n"
        "\n"
        "Each:   dlflow status demo-7f3a --step fit\n");
  for (size_t i = 3; i < 10; ++i) many.status.jobs[i].state = JobState::Failed;
  many.status.jobs[3].state = JobState::Blocked;
  const auto rows = rows_of(table(many));
  REQUIRE(rows.size() == 2 + 5 + 1);
  CHECK_THAT(rows[1], Catch::EndsWith("13/20 done, 6 failed, 1 blocked"));
  CHECK_THAT(rows[2], Catch::StartsWith("fit[i=4]"));
  CHECK_THAT(rows[6], Catch::StartsWith("fit[i=8]"));
  CHECK_THAT(rows[7], Catch::StartsWith("and 1 more"));
  CHECK(rows_of(table(many, {.names = {"fit"}})).size() == 1 + 20);
  for (JobRow& job : many.status.jobs) job.state = JobState::Blocked;
  CHECK_THAT(rows_of(table(many))[1],
             Catch::Contains(" blocked ") && Catch::EndsWith("0/20 done, 20 blocked"));
  CHECK(rows_of(table(many, {.names = {"fit[i=2]", "fit[i=5]"}})).size() == 1 + 2);
  CHECK_THAT(table(many, {.names = {"fit"}}), !Catch::Contains("Each:"));
}

TEST_CASE("a step's line names its array, and tells if there are more", "[status_table]") {
  RunView view = array_run(13);
  const auto array = [&] { return split(rows_of(table(view)).at(1), ' ').at(3); };
  CHECK(rows_of(table(view)).at(1).starts_with("fit x13  812  succeeded"));
  view.status.jobs[7].backend_id = "813_0";
  CHECK(array() == "812+");
  for (JobRow& job : view.status.jobs) job.backend_id = "4711";  // processes instead of an array
  CHECK(array() == "-");
  view.status.jobs[7].backend_id = "813_0";
  CHECK(array() == "-");
}

TEST_CASE("a step has one state as a whole", "[status_table]") {
  RunView view = array_run(13);
  const auto line = [&] { return rows_of(table(view)).at(1); };
  view.status.jobs[1].state = JobState::Skipped;
  CHECK_THAT(line(), Catch::Contains("succeeded") && Catch::EndsWith("13/13 done"));
  view.status.jobs[2].state = JobState::Planned;
  CHECK_THAT(line(), Catch::Contains("planned") && Catch::EndsWith("12/13 done"));
  view.status.jobs[2].state = JobState::Running;
  CHECK_THAT(line(), Catch::Contains(" running ") && Catch::EndsWith("12/13 done, 1 running"));
  view.status.jobs[3].state = JobState::TimedOut;
  CHECK_THAT(line(),
             Catch::Contains(" failed ") && Catch::EndsWith("11/13 done, 1 running, 1 failed"));
}

TEST_CASE("details stand below a job if its line has no room", "[status_table]") {
  RunView view = failed_run({table_row("train", JobState::Failed)});
  view.status.jobs[0].backend_id = "48151623_42";
  view.status.jobs[0].reason = "one two three four five six";
  const auto rows_at = [&](int width) {
    return rows_of(status_table(view, kStart + 34min, {.utf8 = true, .width = width}));
  };
  // The columns take 46, details at least 20.
  CHECK(rows_at(66) ==
        std::vector<std::string>{"STEP   JOB          STATE   TRY  TIME   NODE  DETAIL",
                                 "train  48151623_42  failed  1    20:00  -     one two three four",
                                 "                                              five six"});
  CHECK(rows_at(65) == std::vector<std::string>{"STEP   JOB          STATE   TRY  TIME   NODE",
                                                "train  48151623_42  failed  1    20:00  -",
                                                "    one two three four five six"});
}

TEST_CASE("a name too long for its column has a line of its own", "[status_table]") {
  RunView view = failed_run({table_row("train", JobState::Failed, "lr=0.001,width=1024,seed=3"),
                             table_row("x", JobState::Failed)});
  const auto rows = rows_of(status_table(view, kStart + 34min, {.utf8 = true, .width = 50}));
  CHECK(rows == std::vector<std::string>{"STEP                 JOB  STATE   TRY  TIME   NODE",
                                         "train[lr=0.001,width=1024,seed=3]",
                                         "                     -    failed  1    20:00  -",
                                         "x                    -    failed  1    20:00  -"});
}

TEST_CASE("only the state is coloured in the table", "[status_table]") {
  const RunView view = failed_run({table_row("train", JobState::Failed)});
  const Style color{.color = true, .utf8 = true, .width = 80};
  CHECK_THAT(status_table(view, kStart + 34min, color),
             Catch::Contains("train  -    \033[31mfailed\033[0m  1    20:00  -\n"));
  CHECK_THAT(status_table(view, kStart + 34min, color, {.usage = true}),
             Catch::Contains("train  \033[31mfailed\033[0m  20:00  -"));
}

TEST_CASE("unknown usage of a job is a dash, and memory that no job asked for has no column",
          "[status_table]") {
  RunView view = failed_run({table_row("train", JobState::Succeeded)});
  CHECK(rows_of(table(view, {.usage = true})) ==
        std::vector<std::string>{"STEP   STATE      TIME   CPU TIME  CPU  MEMORY",
                                 "train  succeeded  20:00  -         -    -"});
}

TEST_CASE("a placeholder for unlisted jobs is not counted as a job", "[status_table]") {
  RunView view = failed_run({table_row("split", JobState::Succeeded),
                             table_row("work", JobState::Planned, "part=?"),
                             table_row("merge", JobState::Planned)});
  view.status.jobs[1].is_open = true;
  view.status.state = RunState::Running;
  view.status.ended.reset();
  CHECK_THAT(table(view), Catch::StartsWith("demo-7f3a on alpha: running for 34:00, 1 of 2 jobs "
                                            "succeeded; those of work are not listed yet\n"));
  view.status.jobs[1].state = JobState::Skipped;  // and never will be
  CHECK_THAT(table(view), Catch::StartsWith("demo-7f3a on alpha: running for 34:00, 1 of 2 jobs "
                                            "succeeded\n"));
}

TEST_CASE("a job that was handed over does not wait for a place", "[status_table]") {
  RunView view = failed_run({table_row("train", JobState::Submitting)});
  view.status.state = RunState::Running;
  view.status.ended.reset();
  CHECK_THAT(rows_of(table(view))[1], Catch::EndsWith("is being submitted"));
  view.status.state = RunState::Interrupted;
  CHECK_THAT(table(view), Catch::Contains("not known whether it was"));
}

TEST_CASE("a run that goes on, or was interrupted, shows the next command", "[status_table]") {
  RunView view = failed_run({table_row("train", JobState::Running)});
  view.status.jobs[0].attempt = 0;
  view.status.state = RunState::Running;
  view.status.ended.reset();
  view.status.problem = "squeue does not answer";
  CHECK(table(view) ==
        "demo-7f3a on alpha: running for 34:00, 0 of 1 job succeeded\n"
        "squeue does not answer\n"
        "\n"
        "STEP   JOB  STATE    TRY  TIME   NODE  DETAIL\n"
        "train  -    running  -    34:00  -\n"
        "\n"
        "Output: dlflow logs -f demo-7f3a\n"
        "Stop:   dlflow cancel demo-7f3a\n");
  view.status.state = RunState::Interrupted;
  CHECK_THAT(table(view), Catch::EndsWith("\n\nGo on:  dlflow run --resume demo-7f3a\n"));
  view.status.state = RunState::Succeeded;
  view.status.jobs[0].state = JobState::Succeeded;
  CHECK_THAT(table(view), Catch::StartsWith("demo-7f3a on alpha: succeeded, 1 of 1 job"));
  CHECK_THAT(table(view), Catch::EndsWith("succeeded  -    -     -\n"));  // it does not grow
}

TEST_CASE("the hint asks for the first job that ended badly, not for a later one",
          "[status_table]") {
  RunView view = failed_run({table_row("a", JobState::Blocked), table_row("b", JobState::Skipped),
                             table_row("c", JobState::Failed), table_row("d", JobState::Failed)});
  CHECK_THAT(table(view), Catch::Contains("Why:    dlflow logs demo-7f3a c\n"));
  view.status.jobs[2].attempt = 0;
  CHECK_THAT(table(view), !Catch::Contains("Why:") && Catch::Contains("Again:"));
}

TEST_CASE("the advice to double a job's request is given only if the request is known",
          "[status_table]") {
  const auto advice = [](JobState state, const std::string& reason, const Resources& asked) {
    RunView view = failed_run({table_row("train", state)});
    view.status.jobs[0].reason = reason;
    view.status.jobs[0].asked = asked;
    const std::string text = table(view);
    return text.substr(text.find("demo-7f3a", text.find("resubmit")) + 9);
  };
  const uint64_t mebibyte = uint64_t{1} << 20;
  CHECK(advice(JobState::Failed, "out of memory, asked for 1.5 GiB",
               {.memory_bytes = 1536 * mebibyte}) == " --set memory=3GiB\n");
  CHECK(advice(JobState::Failed, "out of memory", {.memory_bytes = 100 * mebibyte}) ==
        " --set memory=200MiB\n");
  CHECK(advice(JobState::Failed, "out of memory", {.memory_bytes = 100 * mebibyte + 1}) ==
        " --set memory=201MiB\n");
  CHECK(advice(JobState::Failed, "out of memory", {.memory_bytes = 1}) == " --set memory=1MiB\n");
  CHECK(advice(JobState::Failed, "out of memory", {}) == "\n");
  CHECK(advice(JobState::Failed, "exit 3", {.memory_bytes = mebibyte}) == "\n");
  CHECK(advice(JobState::Cancelled, "out of memory", {.memory_bytes = mebibyte}) == "\n");
  CHECK(advice(JobState::TimedOut, "", {}) == "\n");
  CHECK(advice(JobState::TimedOut, "", {.walltime = 1s}) == " --set walltime=1m\n");
  CHECK(advice(JobState::TimedOut, "", {.walltime = 20min}) == " --set walltime=40m\n");
  CHECK(advice(JobState::Failed, "", {.walltime = 20min}) == "\n");
}

TEST_CASE("usage is a share of a job's request, if both are known", "[usage]") {
  JobRow job;
  CHECK_FALSE(cpu_efficiency(job).has_value());
  CHECK_FALSE(memory_efficiency(job).has_value());
  job.usage = JobUsage{.elapsed = 10s, .cpu_time = 5s, .cpus = 0, .memory_bytes = 512};
  CHECK_FALSE(cpu_efficiency(job).has_value());  // the number of processors is unknown
  CHECK_FALSE(memory_efficiency(job).has_value());
  job.asked = Resources{.ranks = 2, .cpus_per_rank = 5, .memory_bytes = 1024};
  CHECK(cpu_efficiency(job) == 0.05);
  CHECK(memory_efficiency(job) == 0.5);
  job.asked->memory_bytes = 1;
  CHECK(memory_efficiency(job) == 512);
  job.asked->memory_bytes = 0;
  CHECK_FALSE(memory_efficiency(job).has_value());
  job.asked->memory_bytes = 1024;
  job.usage->memory_bytes = 1;
  CHECK(memory_efficiency(job) == 1.0 / 1024);
  job.usage->memory_bytes = 0;
  CHECK_FALSE(memory_efficiency(job).has_value());
  job.usage->cpus = 1;  // SLURM's allocation counts, not the request
  CHECK(cpu_efficiency(job) == 0.5);
  job.usage->elapsed = 0s;
  CHECK_FALSE(cpu_efficiency(job).has_value());
  job.usage->elapsed = 1ms;
  job.usage->cpu_time = 1ms;
  CHECK(cpu_efficiency(job) == 1.0);
  job.usage->cpu_time.reset();
  CHECK_FALSE(cpu_efficiency(job).has_value());
  job.usage->elapsed.reset();
  job.usage->cpu_time = 1s;
  CHECK_FALSE(cpu_efficiency(job).has_value());
  job.usage.reset();
  CHECK_FALSE(memory_efficiency(job).has_value());
}

TEST_CASE("time between passes is not counted as used", "[usage]") {
  std::vector<JobEvent> events = {event(1, JobState::Running, 0min),
                                  event(1, JobState::Queued, 1min),
                                  event(1, JobState::Failed, 9min)};
  events[1].used = PassUsage{1min, 10};
  events[2].used = PassUsage{1min, 20};  // its beginning is not in the record
  CHECK(recorded_usage(events)->elapsed == 1min);
}

TEST_CASE("a job that was lost and ran again has the number of its tries, and the cause",
          "[status_table]") {
  RunView view = failed_run({table_row("train", JobState::Succeeded)});
  const auto pass = [](int number, JobState outcome, const std::string& reason) {
    JobSpan span;
    span.running = true;
    span.attempt = 1;
    span.pass = number;
    span.outcome = outcome;
    span.reason = reason;
    return span;
  };
  view.spans["train"] = {pass(1, JobState::Queued, "node failure of alpha-n1"), JobSpan(),
                         pass(2, JobState::Succeeded, "")};
  CHECK(rows_of(table(view)).back() ==
        "train  -    succeeded  2    20:00  -     try 1: node failure of alpha-n1");
  view.status.jobs[0].state = JobState::Queued;
  view.spans["train"].pop_back();
  view.spans["train"].push_back(pass(2, JobState::Queued, "preempted"));
  CHECK(table(view).find("try 2: preempted") != std::string::npos);
}
