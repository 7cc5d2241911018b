#include "engine/slurm/output.h"

#include "tests/support/answers.h"

using namespace dlflow;
using namespace std::chrono_literals;
using test::check_answers;

namespace {

std::vector<std::string> ids(const std::vector<BatchJob>& jobs) {
  std::vector<std::string> list;
  for (const BatchJob& job : jobs) list.push_back(job.id);
  return list;
}

using Ids = std::vector<std::string>;

}  // namespace

TEST_CASE("a job whose node cannot write its log is reported by SLURM's signal 53", "[slurm]") {
  const auto jobs = parse_sacct(
      "812|FAILED|0:53|00:00:00|00:20:00|Unknown|Unknown|n1|1|00:00:00||1||Unknown|a.1\n"
      "813|FAILED|0:9|00:00:00|00:20:00|Unknown|Unknown|n1|1|00:00:00||1||Unknown|a.2\n");
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].log_refused);
  CHECK(ending_in_words(jobs[0]) == "the node cannot write to the run's folder");
  CHECK_FALSE(jobs[1].log_refused);
}

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

TEST_CASE("lines that are not jobs are skipped", "[slurm]") {
  const std::string line = "812|RUNNING|0:05|20:00|N/A|N/A|n1|(null)|None|N/A|a\n";
  CHECK(ids(parse_squeue("CLUSTER: alpha\nJOBID|STATE\n\n" + line)) == Ids{"812"});
  CHECK(ids(parse_squeue("slurm_load_jobs error: Unable to contact slurm controller\n")).empty());
  CHECK(ids(parse_squeue(line + "813|RUNNI")) == Ids{"812"});
  // The last column is the name. A line without an end may have lost a part of it.
  CHECK(ids(parse_squeue(line + "813|RUNNING|0:05|20:00|N/A|N/A|n1|(null)|None|N/A|tr")) ==
        Ids{"812"});
}

TEST_CASE("sacct's lines become jobs, with the memory of their steps", "[slurm]") {
  const auto jobs = parse_sacct(
      "812|COMPLETED|0:0|00:01:10|00:20:00|2026-11-21T08:00:00|2026-11-21T08:01:10|n1|4|"
      "02:03.250||||Unknown|train.1\n"
      "812.batch|COMPLETED|0:0|00:01:10||2026-11-21T08:00:00|2026-11-21T08:01:10|n1|4|00:01.000|"
      "2048K|1|900|Unknown|batch\n"
      "812.0|COMPLETED|0:0|00:01:09||2026-11-21T08:00:01|2026-11-21T08:01:10|n1|4|02:02.250|1.5M|2|"
      "1200|Unknown|"
      "dlflow-train\n");
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].state == BatchState::Completed);
  CHECK(jobs[0].exit == 0);
  CHECK(jobs[0].cpus == 4);
  CHECK(jobs[0].cpu_time == 123250ms);
  CHECK(jobs[0].max_memory_bytes == 3 * 1024 * 1024);  // two tasks of 1.5M each
  CHECK(jobs[0].energy_joules == 1200);
  CHECK(jobs[0].name == "train.1");
  CHECK(ending_in_words(jobs[0]) == "exit 0");
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

TEST_CASE("scontrol shows jobs and the tasks of arrays", "[slurm]") {
  const auto jobs = parse_show_job(
      "JobId=812 JobName=demo-1.1.a.5c1e UserId=ann(1000) JobState=PENDING "
      "Reason=DependencyNeverSatisfied Dependency=(null) ExitCode=0:0 EndTime=Unknown\n"
      "JobId=820 ArrayJobId=813 ArrayTaskId=3 JobName=b JobState=FAILED Reason=NonZeroExitCode "
      "ExitCode=3:0 EndTime=2026-11-21T08:00:00 NodeList=n1\n"
      "JobId=813 ArrayJobId=813 ArrayTaskId=4-6,9%2 ArrayTaskThrottle=2 JobName=b "
      "JobState=PENDING Reason=Dependency\nNo jobs\n");
  CHECK(ids(jobs) == Ids{"812", "813_3", "813_4", "813_5", "813_6", "813_9"});
  CHECK(jobs[0].name == "demo-1.1.a.5c1e");
  CHECK(jobs[0].state == BatchState::Pending);
  CHECK(jobs[0].reason == kNeverSatisfied);
  CHECK(jobs[1].state == BatchState::Failed);
  CHECK(jobs[1].exit == 3);
  CHECK(jobs[1].end == from_rfc3339("2026-11-21T08:00:00.000Z"));
}
