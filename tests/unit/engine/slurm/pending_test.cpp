#include "engine/slurm/pending.h"

#include "tests/support/answers.h"

using namespace dlflow;
using namespace std::chrono_literals;
using test::check_answers;

namespace {

const Time kNow = from_rfc3339("2026-11-21T08:00:00.000Z");

std::string words_for(const std::string& reason, std::optional<Time> start = std::nullopt,
                      BatchState state = BatchState::Pending) {
  BatchJob job;
  job.id = "812";
  job.state = state;
  job.reason = reason;
  job.start = start;
  return slurm_pending_in_words(job, kNow, [] { return "n1 (Prolog error)"; });
}

bool is_held(const std::string& reason, BatchState state = BatchState::Pending) {
  BatchJob job;
  job.state = state;
  job.reason = reason;
  return is_held_in_slurm(job);
}

}  // namespace

TEST_CASE("the reason why a job waits is given in words", "[slurm]") {
  check_answers(
      [](const std::string& reason) { return words_for(reason); },
      {{"", ""},
       {"Dependency", ""},
       {"DependencyNeverSatisfied", "never starts: SLURM considers a job that it waits for failed"},
       {"Resources", "waits for free nodes"},
       {"JobHeldUser", "held: scontrol release 812"},
       {"job requeued in held state", "held: scontrol release 812"},
       {"QOSMaxJobsPerUserLimit", "waits for a limit of its QOS: QOSMaxJobsPerUserLimit"}});
  CHECK_THAT(words_for("PartitionTimeLimit"), Catch::StartsWith("never starts: "));
  CHECK(words_for("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher "
                  "priority partitions") ==
        "waits: nodes that it needs are down or drained; out of service: n1 (Prolog error)");
  CHECK(words_for("SomethingNew") == "waits: SomethingNew");
}

TEST_CASE("a job's expected start is shown while it lies ahead", "[slurm]") {
  CHECK(words_for("Priority", kNow + 130min) == "waits in the queue, starts in about 2:10:00");
  CHECK(words_for("Priority", kNow - 1min) == "waits in the queue");
  CHECK(words_for("Priority", kNow + 364 * 24h) == "waits in the queue");  // SLURM's upper bound
  CHECK(words_for("JobArrayTaskLimit", kNow + 1min) == "waits for other tasks of its array");
}

TEST_CASE("a stuck job shows a sentence, the node and the command that helps", "[slurm]") {
  CHECK(words_for("job requeued in held state", std::nullopt, BatchState::Held) ==
        "held: scontrol release 812");
  CHECK(words_for("", std::nullopt, BatchState::Held) == "held: scontrol release 812");
  check_answers(
      [](const std::string& reason) { return words_for(reason); },
      {{"JobHeldAdmin", "held by an administrator, who must release it: scontrol release 812"},
       {"JobHoldMaxRequeue",
        "held: requeued more often than the site allows; scontrol release 812"},
       {"launch failed requeued held",
        "held: a node could not start it, usually because its prolog failed; scontrol release 812; "
        "out of service: n1 (Prolog error)"}});
  CHECK_THAT(words_for("user env retrieval failed requeued held"),
             Catch::StartsWith("held: a node could not read its user's environment; scontrol "));
  CHECK(words_for("QOSNotAllowed") ==
        "never starts: its account or partition may not use its QOS; "
        "scontrol update jobid=812 qos=NAME");
  CHECK(words_for("ReqNodeNotAvail, UnavailableNodes:n1") ==
        "waits: nodes that it needs are not available; out of service: n1 (Prolog error)");
}

TEST_CASE("only a job that needs a release counts as held", "[slurm]") {
  for (const char* const reason :
       {"JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue", "launch failed requeued held",
        "user env retrieval failed requeued held", "job requeued in held state"}) {
    CHECK(is_held(reason));
    CHECK_FALSE(is_held(reason, BatchState::Cancelled));
  }
  CHECK(is_held("", BatchState::Held));  // SPECIAL_EXIT
  CHECK_FALSE(is_held(""));
  CHECK_FALSE(is_held("Resources"));
  CHECK_FALSE(is_held("None", BatchState::Running));
}
