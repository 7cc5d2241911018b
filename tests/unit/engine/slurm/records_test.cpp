#include "base/error.h"
#include "engine/batch/batch_file.h"
#include "engine/slurm/allocation.h"
#include "engine/slurm/output.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

// Reads output of SLURM and writes dlflow's, each with every field.

using namespace dlflow;
using namespace std::chrono_literals;

namespace fs = std::filesystem;

namespace {

Output answer(int code, const std::string& errors) {
  Output output;
  output.status.code = code;
  output.errors = errors;
  return output;
}

std::vector<std::string> ids(const std::vector<BatchJob>& jobs) {
  std::vector<std::string> list;
  for (const BatchJob& job : jobs) list.push_back(job.id);
  return list;
}

}  // namespace

TEST_CASE("each column of sacct reaches the job", "[slurm]") {
  const auto jobs = parse_sacct(
      "812|CANCELLED by 1000|3:9|00:01:02|00:20:00|2026-11-21T08:00:00|2026-11-21T08:01:02|"
      "n[1-2]|4|00:03.500|1M|2|77|Unknown|a|b\n"
      "812.batch|COMPLETED|0:0|00:01:02|||||4|||2M|3||batch\n");
  REQUIRE(jobs.size() == 1);
  BatchJob expected;
  expected.id = "812";
  expected.name = "a|b";
  expected.state = BatchState::Cancelled;
  expected.node = "n[1-2]";
  expected.elapsed = 62s;
  expected.limit = 1200s;
  expected.start = from_rfc3339("2026-11-21T08:00:00.000Z");
  expected.end = from_rfc3339("2026-11-21T08:01:02.000Z");
  expected.exit = 3;
  expected.signal = 9;
  expected.cancelled_by = "1000";
  expected.cpus = 4;
  expected.cpu_time = 3500ms;
  expected.max_memory_bytes = uint64_t{1} << 20;
  expected.energy_joules = 77;
  CHECK(jobs[0] == expected);
}

TEST_CASE("an impossible energy of a node is ignored", "[slurm]") {
  const auto joules = [](uint64_t raw) {
    return parse_sacct("7|COMPLETED|0:0|||||||00:01|||" + std::to_string(raw) + "||a\n")
        .at(0)
        .energy_joules;
  };
  constexpr uint64_t kNone = uint64_t{1} << 50;
  CHECK(joules(kNone - 1) == double(kNone - 1));
  CHECK(joules(kNone) == 0);
}

TEST_CASE("a job's memory is its largest step's, summed over tasks", "[slurm]") {
  const auto memory = [](const std::string& rows) {
    return parse_sacct("7|COMPLETED|0:0|||||||00:01|||||a\n" + rows).at(0).max_memory_bytes;
  };
  const auto step = [](const std::string& bytes, const std::string& tasks) {
    return "7.0|COMPLETED|0:0|||||||" + bytes + "|" + bytes + "|" + tasks + "|||s\n";
  };
  CHECK(memory(step("1000", "3")) == 3000);
  CHECK(memory(step("1000", "")) == 1000);
  CHECK(memory(step("1000", "0")) == 1000);
  CHECK(memory(step("1000", "3") + step("2000", "1")) == 3000);
  CHECK(memory(step("1K", "1")) == 1 << 10);
  CHECK(memory(step("1.5M", "1")) == 3 << 19);
  CHECK(memory(step("2G", "1")) == uint64_t{2} << 30);
  CHECK(memory(step("2T", "1")) == uint64_t{2} << 40);
  CHECK(memory(step("2P", "1")) == uint64_t{2} << 50);
  CHECK(memory(step("4000P", "1")) == uint64_t{4000} << 50);
  for (const char* none : {"", "x", "-1", "nan", "1X", "9999P", "2e15", "4000P"}) {
    INFO(none);
    CHECK(memory(step(none, "4000000000")) == 0);
  }
}

TEST_CASE("each field of scontrol show job reaches the job", "[slurm]") {
  const auto jobs = parse_show_job(
      "JobId=815 ArrayJobId=812 ArrayTaskId=3 JobName=train.1 JobState=FAILED Reason=NonZero "
      "ExitCode=3:0 SubmitTime=2026-11-21T08:00:00 EndTime=2026-11-21T08:01:02\n");
  REQUIRE(jobs.size() == 1);
  BatchJob expected;
  expected.id = "812_3";
  expected.name = "train.1";
  expected.state = BatchState::Failed;
  expected.reason = "NonZero";
  expected.submitted = from_rfc3339("2026-11-21T08:00:00.000Z");
  expected.end = from_rfc3339("2026-11-21T08:01:02.000Z");
  expected.exit = 3;
  CHECK(jobs[0] == expected);
  CHECK(ids(parse_show_job("JobId=9 ArrayJobId=8 ArrayTaskId=3-5%2 JobName=x\n")) ==
        std::vector<std::string>{"8_3", "8_4", "8_5"});
  CHECK(ids(parse_show_job("JobId=9 JobName=x JobState=PENDING\n")) ==
        std::vector<std::string>{"9"});
  CHECK(ids(parse_show_job("slurm_load_jobs error: Invalid job id specified\n")).empty());
}

TEST_CASE("truncated and foreign lines are left out", "[slurm]") {
  const std::string rest = "|RUNNING|0:05|20:00|N/A|N/A|n1|(null)|None|N/A|a.1";
  const auto listed = [&](const std::string& id) { return ids(parse_squeue(id + rest + "\n")); };
  CHECK(ids(parse_squeue("812" + rest)).empty());
  for (const char* id : {"812", "812_3", "812+1", "1234567890"}) {
    CHECK(listed(id) == std::vector<std::string>{id});
  }
  CHECK(listed("812_[3-4]") == std::vector<std::string>{"812_3", "812_4"});
  for (const char* id : {"", "x", "8x", "812_", "812_x", "812+[3]", "12345678901", "812+"}) {
    INFO(id);
    CHECK(listed(id).empty());
  }
}

TEST_CASE("an answer about a job tells its success, or the reason of its failure", "[slurm]") {
  using Kind = JobAnswer::Kind;
  const auto kind = [](int code, const std::string& errors) {
    return job_answer(answer(code, errors)).kind;
  };
  CHECK(kind(0, "") == Kind::Done);
  CHECK(kind(0, "scontrol: warning: slow\n") == Kind::Done);
  CHECK(kind(0, "scancel: error: Access denied\n") == Kind::Refused);
  CHECK(kind(1, "") == Kind::Refused);
  CHECK(kind(1, "scontrol: warning: slow\n") == Kind::Refused);
  CHECK(kind(1, "Job is pending execution\n") == Kind::Done);
  for (const char* gone :
       {"Invalid job id specified", "Job has already finished",
        "Job/step already completing or completed", "Job is not pending nor running"}) {
    CHECK(kind(1, "scontrol: error: " + std::string(gone) + "\n") == Kind::Gone);
  }
  CHECK(job_answer(answer(4, "")).message == "scontrol ended with exit status 4");
}

TEST_CASE("sbatch's output is reported up to one line", "[slurm]") {
  Output output = answer(0, "");
  output.text = std::string(300, 'x');
  const SubmitAnswer unclear = sbatch_answer(output, 1s);
  CHECK(std::get<Unclear>(unclear).message == "sbatch printed no job id: " + std::string(200, 'x'));
}

TEST_CASE("tasks have their given parents, even if these are alike", "[slurm]") {
  const test::TempDir run;
  std::vector<std::vector<ParentRef>> parents = {
      {{"a", Json::object(), "/run/steps/a"}},
      {{"a", {{"n", 1}}, "/run/steps/a"}},
      {{"b", {{"n", 1}}, "/run/steps/a"}},
      {{"b", {{"n", 1}}, "/other/steps/b"}},
      {},
      {{"a", Json::object(), "/run/steps/a"}, {"b", Json::object(), "/run/steps/b"}},
      {{"a", Json::object(), "/run/steps/a"}, {"b", Json::object(), "/run/steps/b"}}};
  BatchLines lines;
  for (uint32_t task = 0; task < parents.size(); ++task) {
    JobSpec spec;
    spec.job = "j" + std::to_string(task);
    spec.parents = parents[task];
    lines.add({.batch = 3, .task = task, .attempt = int(task) + 1, .spec = spec});
  }
  const fs::path file = batch_file(run.path(), {3, 3});
  write_batch_file(file, lines.text());
  for (uint32_t task = 0; task < parents.size(); ++task) {
    const BatchTask read = attempts_of_task(file, 3, task).front();
    CHECK(read.attempt == int(task) + 1);
    CHECK(read.spec.job == "j" + std::to_string(task));
    REQUIRE(read.spec.parents.size() == parents[task].size());
    for (size_t i = 0; i < parents[task].size(); ++i) {
      CHECK(read.spec.parents[i].step == parents[task][i].step);
      CHECK(read.spec.parents[i].element == parents[task][i].element);
      CHECK(read.spec.parents[i].directory == parents[task][i].directory);
    }
  }
  CHECK_THROWS_WITH(attempts_of_task(file, 2, 0), Catch::EndsWith("has no task 0 of batch 2"));
  CHECK_THROWS_WITH(attempts_of_task(file, 3, 7), Catch::EndsWith("has no task 7 of batch 3"));
  CHECK_THROWS_WITH(attempts_of_task(run.path() / "none", 3, 7), Catch::StartsWith("cannot open "));
}

TEST_CASE("two submissions of one run do not share a call's file", "[slurm]") {
  const test::TempDir run;
  write_batch_file(batch_file(run.path(), {1, 4}), "mine\n");
  for (const BatchRange& range : {BatchRange{1, 4}, BatchRange{4, 9}, BatchRange{2, 3}}) {
    CHECK_THROWS_WITH(write_batch_file(batch_file(run.path(), range), "theirs\n"),
                      Catch::StartsWith("another dlflow process is submitting jobs of "));
  }
  CHECK(batch_ranges(run.path()) == std::vector<BatchRange>{{1, 4}});
  CHECK(read_file(batch_file(run.path(), {1, 4})) == "mine\n");
  write_batch_file(batch_file(run.path(), {5, 9}), "more\n");
  CHECK(batch_ranges(run.path()) == std::vector<BatchRange>{{1, 4}, {5, 9}});
}

TEST_CASE("invalid lines of a process's groups are skipped", "[slurm]") {
  const test::TempDir root;
  root.write("slurm/job_812/memory.events", "oom_kill 2\n");
  CHECK(job_memory_kills(root.path(), "none\n0\n7:x\n0::/slurm/job_812/step_0\n") == 2U);
  CHECK(job_memory_kills(root.path(), "0:/slurm/job_812/step_0\n") == std::nullopt);
}
