#include "engine/gridengine/output.h"

#include <algorithm>
#include <csignal>

#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/tool_scripts.h"

using namespace dlflow;
using test::text;
using namespace std::chrono_literals;

namespace {

// Recorded from SGE 8.1.9.
std::string recorded(const std::string& name) {
  return read_file(std::string(GRIDENGINE_CORPUS) + "/" + name);
}

using Lines = std::vector<std::string>;

/// Returns lines such as "2_1 sweep.2.eval configuring", sorted.
Lines shown(const std::vector<BatchJob>& jobs) {
  Lines lines;
  for (const BatchJob& job : jobs) {
    lines.push_back(job.id + " " + job.name + " " + std::string(words(job.state)));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

BatchJob find(const std::vector<BatchJob>& jobs, const std::string& id) {
  const auto found =
      std::find_if(jobs.begin(), jobs.end(), [&id](const BatchJob& job) { return job.id == id; });
  REQUIRE(found != jobs.end());
  return *found;
}

std::string qsub(int status, const std::string& out, const std::string& errors = "") {
  return text(
      qsub_answer({.status = {.code = status, .signal = 0}, .text = out, .errors = errors}, 30s));
}

JobAnswer::Kind qdel(int status, const std::string& out) {
  return qdel_answer({.status = {.code = status, .signal = 0}, .text = out, .errors = ""}).kind;
}

}  // namespace

TEST_CASE("qstat lists plain jobs and tasks, which count from 0 in dlflow", "[gridengine]") {
  const auto jobs = parse_qstat(recorded("qstat.xml"));
  CHECK(shown(jobs) == Lines{"1_0 sweep-7f3a.1.train pending", "2_0 sweep-7f3a.2.eval pending",
                             "2_1 sweep-7f3a.2.eval configuring",
                             "2_2 sweep-7f3a.2.eval configuring", "3 a&b%lt;c> pending",
                             "5 limit running", "6 bad configuring", "7 wide pending"});
  CHECK(find(jobs, "5").node == "ge-n1");
  CHECK(find(jobs, "7").cpus == 9);
  CHECK(find(jobs, "2_0").reason == "hqw");
}

TEST_CASE("ranges of waiting tasks become single tasks", "[gridengine]") {
  const auto jobs_of = [](const std::string& tasks) {
    return shown(
        parse_qstat("<job_list><JB_job_number>8</JB_job_number><JB_name>a</JB_name>"
                    "<state>qw</state><tasks>" +
                    tasks + "</tasks></job_list>"));
  };
  CHECK(jobs_of("1-3:1") == Lines{"8_0 a pending", "8_1 a pending", "8_2 a pending"});
  CHECK(jobs_of("2,5-9:4") == Lines{"8_1 a pending", "8_4 a pending", "8_8 a pending"});
  CHECK(jobs_of("0,x,7-3:1,1-2:0") == Lines{});
  CHECK(jobs_of("1-4000000000:1").size() == kMaxQstatTasks);
}

TEST_CASE("a truncated answer of qstat is not a job", "[gridengine]") {
  const std::string whole = recorded("qstat.xml");
  const auto jobs = parse_qstat(whole);
  for (size_t size = 0; size < whole.size(); size += 7) {
    CHECK(parse_qstat(whole.substr(0, size)).size() <= jobs.size());
  }
  CHECK(parse_qstat("").empty());
}

TEST_CASE("the letters of a state map to one state", "[gridengine]") {
  const auto state = [](std::string_view letters) { return words(gridengine_state(letters)); };
  for (const char* letters : {"qw", "hqw", "Rq", "hRwq", "Eqw"}) CHECK(state(letters) == "pending");
  for (const char* letters : {"r", "Rr", "hr"}) CHECK(state(letters) == "running");
  for (const char* letters : {"s", "S", "T", "Rs"}) CHECK(state(letters) == "suspended");
  for (const char* letters : {"dr", "dt", "dRr"}) CHECK(state(letters) == "completing");
  CHECK(state("t") == "configuring");
  CHECK(state("?") == "unknown");
}

TEST_CASE("the last entry of a job in accounting is used", "[gridengine]") {
  const auto jobs = parse_qacct(recorded("qacct.txt"));
  CHECK(shown(jobs) == Lines{"1_0 sweep-7f3a.1.train completed", "1_1 sweep-7f3a.1.train failed",
                             "1_2 sweep-7f3a.1.train completed", "2_0 sweep-7f3a.2.eval completed",
                             "2_1 sweep-7f3a.2.eval completed", "2_2 sweep-7f3a.2.eval completed",
                             "3 a&b<c> completed", "4 killed failed", "5 limit walltime reached"});
  const BatchJob killed = find(jobs, "4");
  CHECK(ending_in_words(killed) == "killed by signal 9");
  const BatchJob failed = find(jobs, "1_1");
  CHECK(ending_in_words(failed) == "exit 3");
  CHECK(failed.elapsed == 2s);
  CHECK(failed.cpu_time == 12ms);
  CHECK(failed.max_memory_bytes == uint64_t(3.402 * 1048576));
  CHECK(failed.node == "ge-n1");
  CHECK(failed.end == from_rfc3339("2026-11-23T19:00:10.000Z"));
}

TEST_CASE("an impossible memory size is unknown", "[gridengine]") {
  const auto memory = [](const std::string& text) {
    return parse_qacct("=====\njobnumber 8\ntaskid undefined\nfailed 0\nexit_status 0\nmaxvmem " +
                       text + "\n")
        .at(0)
        .max_memory_bytes;
  };
  CHECK(memory("4194303.000T") == (uint64_t{4194303} << 40));
  CHECK(memory("4194304.000T") == 0);  // 2^62 bytes
  CHECK(memory("99999999999.000T") == 0);
}

TEST_CASE("a rescheduled pass is not an end", "[gridengine]") {
  const auto entry = [](const std::string& failed, int exit) {
    return parse_qacct("=====\njobnumber 8\ntaskid undefined\nfailed       " + failed +
                       "\nexit_status  " + std::to_string(exit) + "\n")
        .at(0);
  };
  CHECK(entry("25  : rescheduling", 99).state == BatchState::Requeued);
  CHECK_FALSE(is_over(entry("25  : rescheduling", 99).state));
  CHECK(entry("21  : in recognizing job", 0).state == BatchState::NodeFail);
  CHECK(entry("26  : opening input/output file", 0).log_refused);
  CHECK(entry("0    ", 53).log_refused);
  CHECK(entry("100 : assumedly after job", 140).signal == SIGUSR2);
  CHECK(entry("8   : in prolog", 0).state == BatchState::Failed);
  CHECK(entry("8   : in prolog", 0).reason == "in prolog");
}

TEST_CASE("times of accounting are read in the forms of both versions", "[gridengine]") {
  const auto time = from_rfc3339("2026-11-23T18:38:52.000Z");
  CHECK(parse_qacct_time("Mon Nov 23 18:38:52 2026") == time);
  CHECK(parse_qacct_time("11/23/2026 18:38:52.123") == time);
  CHECK_FALSE(parse_qacct_time("-/-"));
  CHECK_FALSE(parse_qacct_time("11/23/2026"));  // cut off
}

TEST_CASE("qsub's answer is an id, a refusal or unclear", "[gridengine]") {
  CHECK(qsub(0, "812\n") == "accepted 812");
  CHECK(qsub(0, "welcome\n812.1-3:1\n") == "accepted 812");
  CHECK(qsub(0, "") == "unclear: qsub printed no job id: ''");
  CHECK(qsub(1, "", "Unable to run job: unknown resource \"gpu\"\nExiting.\n") ==
        "refused: unknown resource \"gpu\"");
  CHECK(qsub(25, "",
             "Unable to run job: job rejected: only 2 jobs are allowed per user (current job "
             "count: 2)\nExiting.\n") ==
        "too many: job rejected: only 2 jobs are allowed per user (current job count: 2)");
  CHECK_THAT(qsub(1, "",
                  "error: commlib error: got select error (Connection refused)\nUnable to run "
                  "job: unable to send message to qmaster using port 6444 on host \"ge-n1\": got "
                  "send error\nExiting.\n"),
             Catch::StartsWith("unclear: commlib error"));
}

TEST_CASE("a job that is gone need not be deleted", "[gridengine]") {
  using Kind = JobAnswer::Kind;
  CHECK(qdel(0, "dlflow has registered the job 812 for deletion\n") == Kind::Done);
  CHECK(qdel(0, "job 812 is already in deletion\n") == Kind::Done);
  CHECK(qdel(1, "denied: job \"812\" does not exist\n") == Kind::Gone);
  CHECK(qdel(1, "job \"7\" task \"2\" does not exist\n") == Kind::Gone);
  CHECK(qdel(1, "ann - you do not have the necessary privileges to delete the job \"812\"\n") ==
        Kind::Refused);
}
