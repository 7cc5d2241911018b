#include "engine/slurm/output.h"

#include "tests/support/answers.h"

using namespace dlflow;
using namespace std::chrono_literals;
using test::check_answers;

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

using Ids = std::vector<std::string>;

}  // namespace

TEST_CASE("the id is found in sbatch's output, also among banners", "[slurm]") {
  check_answers(submitted_id, {{"812\n", "812"},
                               {"812;alpha\n", "812"},
                               {"812", "812"},
                               {"  812 \r\n", "812"},
                               {"Submitted batch job 812\n", "812"},
                               {"Submitted batch job 812 on cluster alpha\n", "812"},
                               {"*** 3 days to the maintenance of 2026 ***\n812\n", "812"},
                               {"812\nYour project has used 97 % of its hours.\n\n", "812"},
                               {"2026-11-21 welcome\n\n812;alpha\nbye\n", "812"}});
}

TEST_CASE("text without an id has none", "[slurm]") {
  for (const char* text : {"", "\n", "sbatch: error: 812", "0\n", "-3\n", "812_3\n", "812;\t;x\n",
                           "99999999999999999999\n", "Submitted batch job\n"}) {
    INFO(text);
    CHECK_FALSE(submitted_id(text));
  }
}

TEST_CASE("squeue's line becomes a job", "[slurm]") {
  const auto jobs = parse_squeue(
      "812|RUNNING|1:02:03|1-00:00:00|2026-11-21T08:00:00|2026-11-22T08:00:00|alpha-n[1-2]|(null)|"
      "None|2026-11-21T07:59:00|train.1\n");
  REQUIRE(jobs.size() == 1);
  BatchJob expected;
  expected.id = "812";
  expected.name = "train.1";
  expected.state = BatchState::Running;
  expected.node = "alpha-n[1-2]";
  expected.elapsed = 3723s;
  expected.limit = 86400s;
  expected.start = from_rfc3339("2026-11-21T08:00:00.000Z");
  expected.end = from_rfc3339("2026-11-22T08:00:00.000Z");
  expected.submitted = from_rfc3339("2026-11-21T07:59:00.000Z");
  CHECK(jobs[0] == expected);
}

TEST_CASE("a pending job shows its reason", "[slurm]") {
  const auto jobs = parse_squeue(
      "813|PENDING|0:00|UNLIMITED|N/A|N/A||afterok:812(unfulfilled)|Dependency|N/A|a|b c\n"
      "814|PD|0:00|INVALID|N/A|N/A||(null)|Resources|N/A|x\n");
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].dependency == "afterok:812(unfulfilled)");
  CHECK(jobs[0].reason == "Dependency");
  CHECK(jobs[0].name == "a|b c");  // the separator in a name does no harm
  CHECK_FALSE(jobs[0].limit);
  CHECK_FALSE(jobs[0].start);
  CHECK(jobs[1].state == BatchState::Pending);
  CHECK(jobs[1].dependency.empty());
}

TEST_CASE("tasks that squeue did not expand are expanded", "[slurm]") {
  const auto jobs = parse_squeue(
      "812_[3-5,8%2]|PENDING|0:00|20:00|N/A|N/A||(null)|Priority|N/A|a\n"
      "812_1|RUNNING|0:05|20:00|N/A|N/A|n1|(null)|None|N/A|a\n");
  CHECK(ids(jobs) == Ids{"812_3", "812_4", "812_5", "812_8", "812_1"});
  CHECK(jobs[3].reason == "Priority");
  CHECK(array_id("812_3") == "812");
  CHECK(array_task("812_3") == 3u);
  CHECK_FALSE(array_task("812"));
}

TEST_CASE("the batch step's signal shows that a cancelled job had begun", "[slurm]") {
  const auto signal_of = [](const std::string& batch_exit) {
    const auto jobs = parse_sacct(
        "3|CANCELLED by "
        "0|0:0|00:00:00|20:00|Unknown|Unknown|n1|4|00:00:00||||Unknown|a\n3.batch|CANCELLED|" +
        batch_exit + "|00:00:00||Unknown|Unknown|n1|4|00:00:00||||Unknown|batch\n");
    return jobs.at(0).signal;
  };
  CHECK(signal_of("0:15") == 15);
  CHECK(signal_of("") == 0);
}

TEST_CASE("the end of a job is described in words", "[slurm]") {
  const auto ending = [](const std::string& state, const std::string& exit) {
    const auto jobs =
        parse_sacct("812|" + state + "|" + exit +
                    "|00:01:10|00:20:00|Unknown|Unknown|n1|4|00:00:00||||Unknown|a\n");
    return jobs.size() == 1 ? ending_in_words(jobs[0]) : "no job";
  };
  CHECK(ending("COMPLETED", "0:0") == "exit 0");
  CHECK(ending("FAILED", "3:0") == "exit 3");
  CHECK(ending("FAILED", "0:53") == "the node cannot write to the run's folder");
  CHECK(ending("FAILED", "0:9") == "killed by signal 9");
  CHECK(ending("TIMEOUT", "0:0") == "walltime of 20:00 reached");
  CHECK(ending("CANCELLED by 1000", "0:15") == "cancelled by user 1000");
  CHECK(ending("CANCELLED+", "0:0") == "cancelled");
  CHECK(ending("NODE_FAIL", "1:0") == "node n1 failed");
  CHECK(ending("OUT_OF_ME+", "0:125") == "out of memory");
  CHECK(ending("OUT_OF_MEMORY", "0:125") == "out of memory");
  CHECK(ending("PREEMPTED", "0:0") == "preempted");
  CHECK(ending("RUNNING", "0:0").empty());
}

TEST_CASE("a user with a name is shown by name", "[slurm]") {
  BatchJob job;
  job.state = BatchState::Cancelled;
  job.cancelled_by = "ann";
  CHECK(ending_in_words(job) == "cancelled by ann");
}

TEST_CASE("a state is read in all spellings, in words and letters", "[slurm]") {
  CHECK(slurm_state("BOOT_FAIL") == BatchState::BootFail);
  CHECK(slurm_state("DEADLINE") == BatchState::Deadline);
  CHECK(slurm_state("REQUEUED") == BatchState::Requeued);
  CHECK(slurm_state("RH") == BatchState::Held);
  CHECK(slurm_state("CG") == BatchState::Completing);
  CHECK(slurm_state("RE+") == BatchState::Unknown);  // RESIZING, REQUEUED, REVOKED?
  CHECK(slurm_state("") == BatchState::Unknown);
  CHECK(slurm_state("LAUNCHED") == BatchState::Unknown);
}

TEST_CASE("only ended jobs are over", "[slurm]") {
  for (const char* text : {"CD", "F", "CA", "TO", "OOM", "NF", "PR", "BF", "DL", "RV"}) {
    CHECK(is_over(slurm_state(text)));
  }
  for (const char* text : {"PD", "CF", "R", "S", "CG", "RQ", "RH", "what"}) {
    CHECK_FALSE(is_over(slurm_state(text)));
  }
}

TEST_CASE("durations and times are read as SLURM writes them", "[slurm]") {
  CHECK(parse_slurm_duration("1-02:03:04") == 93784s);
  CHECK(parse_slurm_duration("03:04") == 184s);
  CHECK(parse_slurm_duration("00:01.250") == 1250ms);
  for (const char* text : {"UNLIMITED", "INVALID", "Partition_Limit", "", "7", "1-", "1:x"}) {
    CHECK_FALSE(parse_slurm_duration(text));
  }
  CHECK(parse_slurm_time("2026-11-21T08:00:00") == from_rfc3339("2026-11-21T08:00:00.000Z"));
  CHECK(parse_slurm_time("1795248000") == from_rfc3339("2026-11-21T08:00:00.000Z"));
  for (const char* text :
       {"N/A", "Unknown", "None", "", "2026-13-41T08:00:00", "08:00:00", "20 6-11-21T08:00:00"}) {
    CHECK_FALSE(parse_slurm_time(text));
  }
}

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
  // The larger of those of its steps.
  CHECK(parse_sacct("7|COMPLETED|0:0|||||||00:01|||||a\n7.batch|COMPLETED|0:0|||||||||1|900||b\n"
                    "7.0|COMPLETED|0:0|||||||||2|1200||s\n")
            .at(0)
            .energy_joules == 1200);
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
  CHECK(ids(parse_show_job("JobId=9 ArrayJobId=8 ArrayTaskId=3-5,9%2 JobName=x\nNo jobs\n")) ==
        Ids{"8_3", "8_4", "8_5", "8_9"});
  CHECK(ids(parse_show_job("JobId=9 JobName=x JobState=PENDING\n")) == Ids{"9"});
  CHECK(ids(parse_show_job("slurm_load_jobs error: Invalid job id specified\n")).empty());
}

TEST_CASE("truncated and foreign lines are left out", "[slurm]") {
  const std::string rest = "|RUNNING|0:05|20:00|N/A|N/A|n1|(null)|None|N/A|a.1";
  const auto listed = [&](const std::string& id) { return ids(parse_squeue(id + rest + "\n")); };
  CHECK(ids(parse_squeue("812" + rest)).empty());
  for (const char* id : {"812", "812_3", "812+1", "1234567890"}) {
    CHECK(listed(id) == Ids{id});
  }
  CHECK(ids(parse_squeue("CLUSTER: alpha\nJOBID|STATE\n\n812" + rest + "\n813|RUNNI")) ==
        Ids{"812"});
  CHECK(ids(parse_squeue("slurm_load_jobs error: Unable to contact slurm controller\n")).empty());
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
