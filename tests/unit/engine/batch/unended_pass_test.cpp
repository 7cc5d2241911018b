#include <algorithm>

#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/unit/engine/batch/batch_job_run.h"

using namespace dlflow;
using test::Job;
using test::kTryAgain;

namespace {

/// Returns this machine's name in a batch system, without its domain.
std::string first_node() {
  char name[256] = "";
  ::gethostname(name, sizeof name);
  const std::string whole = name;
  return whole.substr(0, whole.find('.'));
}

}  // namespace

TEST_CASE("a second SLURM job of one attempt ends as the first did", "[job-exec]") {
  const Job job("echo x >> {run}/trace; exit 4");
  CHECK(job.execute("812") == 4);
  CHECK(job.execute("813") == 4);
  CHECK(job.content("trace") == "x\n");
  CHECK(job.last().backend_id == "812");
}

TEST_CASE("a second SLURM job of one attempt requeues itself while the first is at work",
          "[job-exec]") {
  Job job("echo x >> {run}/trace");
  job.spec.retry.attempts = 2;
  job.die_in_a_pass();
  job.at_work = "812";
  CHECK(job.execute("813") == kTryAgain);
  CHECK(job.content("requeued") == "813\n");
  CHECK(job.content("trace").empty());
  CHECK(job.last().state == JobState::Running);
  SECTION("continues it when SLURM has lost the first") {
    job.at_work.clear();
    CHECK(job.execute("813") == 0);
    CHECK(job.content("trace") == "x\n");
    CHECK(job.last().backend_id == "813");
  }
  SECTION("ends without a record if it cannot requeue itself") {
    job.refuses_requeue = true;
    CHECK(job.execute("813") == 1);
    CHECK(job.last().state == JobState::Running);
  }
}

TEST_CASE("the next attempt requeues itself while the previous one is at work", "[job-exec]") {
  Job job("echo x >> {run}/trace");
  job.die_in_a_pass();
  job.attempt_number = 2;
  SECTION("at work according to the batch system") { job.at_work = "812"; }
  SECTION("at work according to its supervisor, which renews the claim") {
    job.patience = std::chrono::seconds(5);
    job.renews_claim = true;
  }
  CHECK(job.execute("813") == kTryAgain);
  CHECK(job.content("trace").empty());
  job.at_work.clear();
  job.renews_claim = false;
  job.patience = std::chrono::seconds(1);  // without a renewal for so long it counts as dead
  CHECK(job.execute("813") == 0);
  CHECK(job.content("trace") == "x\n");
}

TEST_CASE("a pass whose node failed counts as a failed try", "[job-exec]") {
  Job job("echo x >> {run}/trace");
  job.die_in_a_pass();
  SECTION("another try follows if the step allows it") {
    job.spec.retry.attempts = 2;
    CHECK(job.execute() == 0);
    CHECK(job.content("trace") == "x\n");
    CHECK(job.last().state == JobState::Succeeded);
    CHECK(newest_claim(job.attempt())->pass == 2);
    const auto all = attempt_events(job.spec.job_directory, job.spec.job, 1);
    CHECK(std::any_of(all.begin(), all.end(), [](const JobEvent& event) {
      return event.reason == "try 2 of 2 follows; the previous one: its node failed";
    }));
  }
  SECTION("the job is lost if not") {
    CHECK(job.execute() == 1);
    CHECK(job.content("trace").empty());
    CHECK(job.last().state == JobState::Lost);
    CHECK(job.last().failed_node == first_node());
    CHECK(job.execute() == 1);
    CHECK(job.content("trace").empty());
  }
}

TEST_CASE("a preempted pass that saved is not a failed try", "[job-exec]") {
  const Job job("echo x >> {run}/trace");
  job.die_in_a_pass();
  JobEvent stopped;
  stopped.exit = kTryAgain;
  stopped.reason = "stopped by SIGTERM, checkpoint saved";
  AppendFile(job.attempt() / "events.jsonl").append(to_line(stopped));
  CHECK(job.execute() == 0);
  CHECK(job.last().state == JobState::Succeeded);
  CHECK(job.last().failed_tries == 0);
}

TEST_CASE("a preempted pass that saved keeps the count of failed tries", "[job-exec]") {
  Job job("exit 3");
  job.spec.retry = {.attempts = 2, .on = {RetryCause::Failure}};
  job.die_in_a_pass();
  JobEvent tried;
  tried.state = JobState::Running;
  tried.failed_tries = 1;
  JobEvent stopped;
  stopped.exit = kTryAgain;
  AppendFile events(job.attempt() / "events.jsonl");
  events.append(to_line(tried));
  events.append(to_line(stopped));
  CHECK(job.execute() == 3);
  CHECK(job.last().state == JobState::Failed);
  const auto all = attempt_events(job.spec.job_directory, job.spec.job, 1);
  const auto queued = std::find_if(all.begin(), all.end(), [](const JobEvent& event) {
    return event.state == JobState::Queued;
  });
  REQUIRE(queued != all.end());
  CHECK(queued->failed_tries == 1);
  CHECK(queued->exit == kTryAgain);
  CHECK(queued->reason == "preempted; continues from its checkpoint");
}

TEST_CASE("a pass that was asked to end was preempted, however it ended", "[job-exec]") {
  Job job("echo x >> {run}/trace");
  job.die_in_a_pass();
  JobEvent told;
  told.reason = "asked to end by SIGTERM";
  AppendFile(job.attempt() / "events.jsonl").append(to_line(told));
  job.spec.retry.attempts = 2;
  SECTION("it is tried again for that cause") {
    job.spec.retry.on = {RetryCause::Preempted};
    CHECK(job.execute() == 0);
    CHECK(job.last().failed_tries == 1);
    for (const JobEvent& event : attempt_events(job.spec.job_directory, job.spec.job, 1)) {
      CHECK_FALSE(event.preempted);  // only lost passes are preempted
    }
  }
  SECTION("it is not tried again for another cause") {
    job.spec.retry.on = {RetryCause::NodeFailure};
    CHECK(job.execute() == 1);
    CHECK(job.last().state == JobState::Lost);
    CHECK(job.last().preempted);
    CHECK(job.last().reason == "it was preempted");
  }
}

TEST_CASE("a pass that was asked to end because another node of its job failed was not preempted",
          "[job-exec]") {
  Job job("echo x >> {run}/trace");
  job.die_in_a_pass();
  JobEvent told;
  told.reason = "stopped by SIGTERM";
  told.failed_node = "b2";
  AppendFile(job.attempt() / "events.jsonl").append(to_line(told));
  SECTION("it is tried again for that cause") {
    job.spec.retry = {.attempts = 2, .on = {RetryCause::NodeFailure}};
    CHECK(job.execute() == 0);
    CHECK(job.last().failed_tries == 1);
  }
  SECTION("it is lost, and the node is named") {
    CHECK(job.execute() == 1);
    CHECK(job.last().state == JobState::Lost);
    CHECK_FALSE(job.last().preempted);
    CHECK(job.last().reason == "node b2 failed");
    CHECK(job.last().failed_node == "b2");
  }
}

TEST_CASE("the launcher's output tells whether a node failed before the pass was asked to end",
          "[job-exec]") {
  // SLURM 24.11 leaves the supervisor a second, and srun may name another node of the job.
  const std::string earlier = "srun: error: Node failure on b9\n";
  Job job("echo x >> {run}/trace");
  job.die_in_a_pass();
  job.spec.resources.ranks = 2;
  JobEvent told;
  told.reason = "asked to end by SIGTERM";
  told.earlier_error_bytes = earlier.size();
  AppendFile(job.attempt() / "events.jsonl").append(to_line(told));
  SECTION("a node failed") {
    write_file_atomic(job.attempt() / "stderr",
                      earlier +
                          "error: rank 1 (node b2) died: killed, crashed, or its node went down\n"
                          "srun: error: Node failure on b1\n");
    CHECK(job.execute() == 1);
    CHECK_FALSE(job.last().preempted);
    CHECK(job.last().reason == "node b2 failed");
  }
  SECTION("a node failed in an earlier pass only") {
    write_file_atomic(job.attempt() / "stderr", earlier);
    CHECK(job.execute() == 1);
    CHECK(job.last().preempted);
  }
}

TEST_CASE("a job goes on only once its record of the previous pass is on disk", "[job-exec]") {
  Job job("echo x >> {run}/trace");
  job.die_in_a_pass();
  job.spec.retry.attempts = 2;
  job.syncs_fail = true;
  const int ended = job.execute();
  if (ended == test::kNotTraced) return test::skip("processes cannot be traced here");
  CHECK(ended == 99);
  CHECK(job.content("trace").empty());
}

TEST_CASE("an abandoned pass can no longer publish", "[job-exec]") {
  Job job(
      "echo late > $DLFLOW_OUTPUTS/o; touch {run}/begun; until [ -e {run}/go ]; do sleep 0.02; "
      "done");
  job.spec.outputs = {{"o", "o"}};
  const pid_t given_up = job.begin_elsewhere();
  while (!std::filesystem::exists(job.run.path() / "begun")) ::usleep(1000);
  CHECK(job.execute("813") == 1);
  CHECK(job.last().state == JobState::Lost);
  CHECK(newest_claim(job.attempt())->pass == 2);
  job.run.write("go", "");
  CHECK(wait_for(given_up).code == int(Supervision::Unrecorded));
  CHECK_FALSE(
      std::filesystem::exists(std::filesystem::symlink_status(job.spec.job_directory / "outputs")));
  CHECK(job.last().state == JobState::Lost);
}

TEST_CASE("tries are bounded, whether the job or its node failed", "[job-exec]") {
  Job job("echo x >> {run}/trace; exit 3");
  job.spec.retry = {.attempts = 3, .on = {RetryCause::Failure, RetryCause::NodeFailure}};
  job.die_in_a_pass();
  CHECK(job.execute() == kTryAgain);
  CHECK(job.execute() == 3);
  CHECK(job.content("trace") == "x\nx\n");
  CHECK(job.content("requeued") == "812\n");
  CHECK(job.last().state == JobState::Failed);
}

TEST_CASE("a walltime warning before the supervisor starts kills no process", "[job-exec]") {
  Job job("echo x >> {run}/trace");
  job.spec.resources.walltime = std::chrono::hours(1);
  job.spec.retry.attempts = 2;
  job.die_in_a_pass();
  job.warned_early = true;
  CHECK(job.execute("813") == 0);
  CHECK(job.content("trace") == "x\n");
}
