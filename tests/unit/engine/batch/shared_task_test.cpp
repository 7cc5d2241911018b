#include <signal.h>

#include "engine/plan/withdrawn.h"
#include "tests/support/catch.h"
#include "tests/unit/engine/batch/batch_job_run.h"

// A task that several elements share; each has its own record, state, end and cancel.

using namespace dlflow;
using namespace std::chrono_literals;
using test::Job;
using test::kTryAgain;

namespace fs = std::filesystem;

TEST_CASE("a shared task runs one element after another, each with its own record", "[job-exec]") {
  Job job("echo a >> {run}/trace; echo 1 > $DLFLOW_OUTPUTS/o");
  job.spec.outputs = {{"o", "o"}};
  job.add("b", "echo b >> {run}/trace; echo 2 > $DLFLOW_OUTPUTS/o");
  CHECK(job.execute("812_0") == 0);
  CHECK(job.content("trace") == "a\nb\n");
  CHECK(job.history_of("step") == "running succeeded");
  CHECK(job.history_of("b") == "running succeeded");
  CHECK(job.last_of("b").backend_id == "812_0");
  CHECK(job.content("steps/b/outputs/o") == "2\n");
  CHECK(job.execute("812_0") == 0);  // SLURM restarts it
  CHECK(job.content("trace") == "a\nb\n");
}

TEST_CASE("a failing element stops neither the next element nor dependents of other elements",
          "[job-exec]") {
  Job job("exit 3");
  job.add("b", "true");
  CHECK(job.execute() == 0);
  CHECK(job.last().state == JobState::Failed);
  CHECK(job.last().exit == 3);
  CHECK(job.last_of("b").state == JobState::Succeeded);
}

TEST_CASE("an element whose parent has failed is blocked, and the others run", "[job-exec]") {
  Job job("true");
  const Job parent("exit 1");
  REQUIRE(parent.execute() == 1);
  job.spec.parents = {{"data", Json::object(), parent.spec.job_directory}};
  job.add("b", "true").parents.clear();
  CHECK(job.execute() == 0);
  CHECK(job.last().state == JobState::Blocked);
  CHECK(job.last_of("b").state == JobState::Succeeded);
}

TEST_CASE("an element that is tried again waits until the others had their turn", "[job-exec]") {
  Job job("echo a >> {run}/trace; [ -e {run}/tried ] && exit 0; touch {run}/tried; exit 3");
  job.spec.retry = {.attempts = 2, .on = {RetryCause::Failure}};
  job.add("b", "echo b >> {run}/trace");
  CHECK(job.execute("812_1") == kTryAgain);
  CHECK(job.content("requeued") == "812_1\n");
  CHECK(job.content("trace") == "a\nb\n");
  CHECK(job.last().state == JobState::Queued);
  CHECK(job.last_of("b").state == JobState::Succeeded);
  CHECK(job.execute("812_1") == 0);
  CHECK(job.content("trace") == "a\nb\na\n");
  CHECK(job.history_of("step") == "running queued running succeeded");
  CHECK(job.content("time").empty());  // no more time than before
}

TEST_CASE("a warning before the time limit lets the running element save, and the rest wait",
          "[job-exec]") {
  Job job("true");
  JobSpec& saves = job.add("b",
                           "[ -e $DLFLOW_CHECKPOINTS/n ] && exit 0; trap 'echo 1 > "
                           "$DLFLOW_CHECKPOINTS/n; exit 75' USR1; "
                           "kill -USR1 $PPID; while :; do sleep 0.02; done");
  saves.checkpoint = CheckpointPolicy();
  job.add("c", "true");
  CHECK(job.execute() == kTryAgain);
  CHECK(job.last().state == JobState::Succeeded);
  CHECK(job.last_of("b").state == JobState::Queued);
  CHECK_FALSE(fs::exists(job.run.path() / "steps" / "c" / "attempt-1"));
  CHECK(job.execute() == 0);
  CHECK(job.history_of("step") == "running succeeded");
  CHECK(job.history_of("b") == "running queued running succeeded");
  CHECK(job.history_of("c") == "running succeeded");
}

TEST_CASE("an element that cannot save runs on after a warning, and the rest wait", "[job-exec]") {
  Job job("kill -USR1 $PPID; sleep 0.1");
  job.spec.resources.walltime = 60s;
  job.add("b", "true");
  CHECK(job.execute() == kTryAgain);
  CHECK(job.last().state == JobState::Succeeded);
  CHECK(job.execute() == 0);
  CHECK(job.last_of("b").state == JobState::Succeeded);
}

TEST_CASE("SIGTERM ends the running element, and no other begins after it", "[job-exec]") {
  Job job("true");
  job.add("b", "kill -TERM $PPID; sleep 30");
  job.add("c", "true");
  CHECK(job.execute() == 128 + SIGTERM);
  CHECK(job.last().state == JobState::Succeeded);
  CHECK(job.history_of("b") == "running");
  CHECK_FALSE(fs::exists(job.run.path() / "steps" / "c" / "attempt-1"));
  CHECK(job.execute() == 0);  // preempted: the next pass counts it as lost, and goes on
  CHECK(job.last_of("b").state == JobState::Lost);
  CHECK(job.last_of("b").preempted);
  CHECK(job.last_of("c").state == JobState::Succeeded);
}

TEST_CASE("no element begins after one whose end cannot be recorded", "[job-exec]") {
  Job job("true");
  job.add("b", "true");
  job.run.write("steps/step/attempt-1/job.json", "{");
  CHECK(job.execute() == 1);
  CHECK_FALSE(fs::exists(job.run.path() / "steps" / "b" / "attempt-1"));
}

TEST_CASE("a failing node costs only the running element its try", "[job-exec]") {
  Job job("true");
  job.add("b", "true");
  job.die_in_a_pass();
  CHECK(job.execute("812") == 0);
  CHECK(job.last().state == JobState::Lost);
  CHECK(job.last().failed_node != "");
  CHECK(job.history_of("b") == "running succeeded");
}

TEST_CASE("a request to end reaches only the element that `dlflow cancel` names", "[job-exec]") {
  SECTION("a running element") {
    Job job("touch {run}/steps/step/attempt-1/cancel; kill -INT $PPID; sleep 30");
    job.add("b", "true");
    CHECK(job.execute() == 0);
    CHECK(job.last().state == JobState::Cancelled);
    CHECK(job.last_of("b").state == JobState::Succeeded);
  }
  SECTION("an element that ended just before the signal came") {
    Job job("true");
    job.add("b", "kill -INT $PPID; sleep 0.1");
    CHECK(job.execute() == 0);
    CHECK(job.last_of("b").state == JobState::Succeeded);
  }
  SECTION("an element that has had no turn yet") {
    Job job(
        "mkdir -p {run}/steps/b/attempt-1; touch {run}/steps/b/attempt-1/cancel; kill -INT $PPID; "
        "sleep 0.1");
    job.add("b", "echo x >> {run}/trace");
    job.add("c", "true");
    CHECK(job.execute() == 0);
    CHECK(job.last().state == JobState::Succeeded);
    CHECK(job.history_of("b") == "cancelled");
    CHECK(job.content("trace").empty());
    CHECK(job.last_of("c").state == JobState::Succeeded);
  }
}

TEST_CASE("a withdrawn element runs nothing, and the others run", "[job-exec]") {
  Job job("echo x >> {run}/trace");
  job.add("b", "true");
  const WithdrawnAttempt withdrawn{job.spec.job, 1};
  withdraw(job.run.path(), {&withdrawn, 1});
  CHECK(job.execute() == 0);
  CHECK(job.history_of("step") == "cancelled");
  CHECK(job.content("trace").empty());
  CHECK(job.last_of("b").state == JobState::Succeeded);
}

TEST_CASE("an element with a later attempt has no turn", "[job-exec]") {
  Job job("echo x >> {run}/trace");
  job.add("b", "true");
  make_directories(attempt_directory(job.spec.job_directory, 2));
  CHECK(job.execute() == 0);
  CHECK(job.content("trace").empty());
  CHECK(job.last_of("b").state == JobState::Succeeded);
}

TEST_CASE("elements of a shared task that another job runs are left to that job until a later look",
          "[job-exec]") {
  Job job("true");
  job.add("b", "true");
  job.die_in_a_pass();  // as job 812
  job.at_work = "812";
  CHECK(job.execute("813") == kTryAgain);
  CHECK(job.content("requeued") == "813\n");
  CHECK(job.last_of("b").state == JobState::Succeeded);
  job.at_work = "";
  CHECK(job.execute("813") == 0);
}

TEST_CASE("a shared task requeues itself while a parent of one element is at work", "[job-exec]") {
  const Job parent("true");
  parent.die_in_a_pass();
  Job job("true");
  job.add("b", "true");
  job.spec.parents = {{"data", Json::object(), parent.spec.job_directory}};
  job.at_work = "812";
  CHECK(job.execute("813") == kTryAgain);
  CHECK(job.history_of("step").empty());
  CHECK(job.last_of("b").state == JobState::Succeeded);
}

TEST_CASE("a shared task that cannot be requeued fails its remaining elements with the reason",
          "[job-exec]") {
  Job job("exit 3");
  job.spec.retry = {.attempts = 2, .on = {RetryCause::Failure}};
  job.add("b", "true").retry = Retry();
  job.refuses_requeue = true;
  CHECK(job.execute() == 1);
  CHECK(job.last().state == JobState::Failed);
  CHECK(job.last().reason == "it cannot be requeued: requeue is disabled");
  CHECK(job.last_of("b").state == JobState::Succeeded);
}

TEST_CASE("a shared task gets more time if one of its elements does", "[job-exec]") {
  Job job("[ $DLFLOW_PASS = 1 ] && sleep 60; true");
  job.spec.resources.walltime = 1s;
  job.spec.retry = {.attempts = 2, .on = {RetryCause::Timeout}, .walltime_factor = 59};
  job.spec.sees_run = true;
  JobSpec& other = job.add("b", "true");
  other.resources.walltime = 60s;
  CHECK(job.execute() == kTryAgain);
  CHECK(job.content("time") == "2\n");  // 1 s, 30 s to record, 1 s, 58 s more and 30 s to record
  CHECK(job.execute() == 0);
  CHECK(job.last().state == JobState::Succeeded);
}
