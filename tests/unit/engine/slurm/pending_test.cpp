#include "engine/slurm/pending.h"

#include "tests/support/catch.h"

using namespace dlflow;
using namespace std::chrono_literals;

namespace {

const Time kNow = from_rfc3339("2026-11-21T08:00:00.000Z");

std::string words_for(const std::string& reason, std::optional<Time> start = std::nullopt) {
  BatchJob job;
  job.id = "812";
  job.state = BatchState::Pending;
  job.reason = reason;
  job.start = start;
  return slurm_pending_in_words(job, kNow);
}

}  // namespace

TEST_CASE("why a job waits is told in words", "[slurm]") {
  CHECK(words_for("").empty());
  CHECK(words_for("Dependency").empty());
  CHECK(words_for("DependencyNeverSatisfied") ==
        "never starts: SLURM takes what it waits for as failed");
  CHECK(words_for("Resources") == "waits for free nodes");
  CHECK(words_for("JobHeldUser") == "held: scontrol release 812");
  CHECK(words_for("job requeued in held state") == "held: scontrol release 812");
  CHECK(words_for("QOSMaxJobsPerUserLimit") ==
        "waits for a limit of its QOS: QOSMaxJobsPerUserLimit");
  CHECK_THAT(words_for("PartitionTimeLimit"), Catch::StartsWith("never starts: "));
  CHECK(words_for("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher "
                  "priority partitions") == "waits: nodes that it needs are down or drained");
  CHECK(words_for("SomethingNew") == "waits: SomethingNew");
}

TEST_CASE("when a job is expected to start is said while that lies ahead", "[slurm]") {
  CHECK(words_for("Priority", kNow + 130min) == "waits in the queue, starts in about 2:10:00");
  CHECK(words_for("Priority", kNow - 1min) == "waits in the queue");
  CHECK(words_for("JobArrayTaskLimit", kNow + 1min) == "waits for other tasks of its array");
}
