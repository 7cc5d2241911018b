#include "engine/batch/job_exec.h"

#include <signal.h>

#include "engine/plan/withdrawn.h"
#include "tests/support/catch.h"
#include "tests/support/deep_tree.h"
#include "tests/support/limited.h"
#include "tests/unit/engine/batch/batch_job_run.h"

using namespace dlflow;
using test::Job;
using test::kTryAgain;

namespace fs = std::filesystem;

TEST_CASE("a job that succeeds ends with 0 and publishes", "[job-exec]") {
  Job job("echo 42 > $DLFLOW_OUTPUTS/answer");
  job.spec.outputs = {{"answer", "answer"}};
  CHECK(job.execute() == 0);
  CHECK(job.last().state == JobState::Succeeded);
  CHECK(job.last().backend_id == "812");
  CHECK(read_file(job.spec.job_directory / "outputs" / "answer") == "42\n");
  CHECK(job.content("requeued").empty());
}

TEST_CASE("a job that fails ends with its exit status", "[job-exec]") {
  const Job job("exit 3");
  CHECK(job.execute() == 3);
  CHECK(job.last().state == JobState::Failed);
}

TEST_CASE("a job that is allowed to fail ends with 0, so that its dependents can check it",
          "[job-exec]") {
  Job job("exit 3");
  job.spec.allow_failure = true;
  CHECK(job.execute() == 0);
  CHECK(job.last().state == JobState::Failed);
  CHECK(job.execute() == 0);  // SLURM restarts it
}

TEST_CASE("a job with always() requeues itself while a parent is at work, whatever SLURM reports",
          "[job-exec]") {
  const Job parent("true");
  parent.die_in_a_pass();  // as job 812: no end on record
  Job job("true");
  job.spec.always = true;
  job.spec.parents = {{"data", Json::object(), parent.spec.job_directory}};
  job.at_work = "812";
  CHECK(job.execute("813") == kTryAgain);
  CHECK(job.content("requeued") == "813\n");
  job.at_work = "";  // its node has failed
  CHECK(job.execute("813") == 0);
  CHECK(job.last().state == JobState::Succeeded);
}

TEST_CASE(
    "a job that needs its parent's success is neither run nor requeued while the parent is at work",
    "[job-exec]") {
  const Job parent("true");
  parent.die_in_a_pass();  // as job 812: no end on record
  Job job("echo x >> {run}/trace");
  job.spec.parents = {{"data", Json::object(), parent.spec.job_directory}};
  job.at_work = "812";
  CHECK(job.execute("813") != kTryAgain);  // the batch system reports the parent's success
  CHECK(job.content("requeued").empty());
  CHECK(job.content("trace").empty());
}

TEST_CASE("a job whose exit status has a meaning for its batch system ends with 1", "[job-exec]") {
  Job job("exit 99");
  job.reserves_statuses = true;
  CHECK(job.execute() == 1);
  CHECK(job.last().exit == 99);
  CHECK(job.execute() == 1);  // also if it is started once more
}

TEST_CASE(
    "a signal that the batch system sends to all processes as a warning does not reach the program",
    "[job-exec]") {
  Job job("kill -USR2 $$; echo survived");
  CHECK(job.execute() == 128 + SIGUSR2);
  Job told("kill -USR2 $$; echo survived");
  told.own_signals = {SIGUSR2};
  CHECK(told.execute() == 0);
}

TEST_CASE("a job that has ended is not run again when SLURM restarts it", "[job-exec]") {
  const Job job("echo x >> {run}/trace");
  CHECK(job.execute() == 0);
  CHECK(job.execute() == 0);
  CHECK(job.content("trace") == "x\n");
}

TEST_CASE("a requeue waits for a controller that does not answer", "[job-exec]") {
  Job job("echo 1 > $DLFLOW_CHECKPOINTS/n; exit 75");
  job.spec.checkpoint = CheckpointPolicy();
  job.silent_times = 5;
  CHECK(job.execute() == kTryAgain);
  CHECK(job.content("requeued") == "812\n");
  CHECK(job.last().state == JobState::Queued);
}

TEST_CASE("a job that saved a checkpoint requeues itself and goes on", "[job-exec]") {
  Job job(
      "cd $DLFLOW_CHECKPOINTS; [ ! -e n ] || exit 0; echo 1 > n; echo half > $DLFLOW_OUTPUTS/log; "
      "exit 75");
  job.spec.checkpoint = CheckpointPolicy();
  job.spec.outputs = {{"log", "log"}};
  CHECK(job.execute("812_3") == kTryAgain);
  CHECK(job.content("requeued") == "812_3\n");
  CHECK(job.last().state == JobState::Queued);
  CHECK(job.execute("812_3") == 0);  // the program's files are still there
  CHECK(job.last().state == JobState::Succeeded);
}

TEST_CASE("a job that was cancelled during its own requeue does not go on", "[job-exec]") {
  Job job("echo x >> {run}/trace; echo 1 > $DLFLOW_CHECKPOINTS/n; exit 75");
  job.spec.checkpoint = CheckpointPolicy();
  CHECK(job.execute() == kTryAgain);
  write_file_atomic(job.attempt() / "cancel", "");
  CHECK(job.execute() == 1);
  CHECK(job.content("trace") == "x\n");
  CHECK(job.last().state == JobState::Cancelled);
  CHECK(job.last().reason == "cancelled by `dlflow cancel`");
}

TEST_CASE("a job that cannot be requeued fails with the reason", "[job-exec]") {
  Job job("echo 1 > $DLFLOW_CHECKPOINTS/n; exit 75");
  job.spec.checkpoint = CheckpointPolicy();
  job.refuses_requeue = true;
  CHECK(job.execute() == 1);
  CHECK(job.last().state == JobState::Failed);
  CHECK(job.last().reason == "it cannot be requeued: requeue is disabled");
}

TEST_CASE("a failed try leaves no outputs for the next", "[job-exec]") {
  Job job(
      "[ ! -e {run}/tried ] || exit 0; touch {run}/tried; echo 1 > $DLFLOW_OUTPUTS/model; "
      "exit 3");
  job.spec.outputs = {{"model", "model"}};
  job.spec.retry = {.attempts = 2, .on = {RetryCause::Failure}};
  CHECK(job.execute() == kTryAgain);
  CHECK(job.execute() == 1);
  CHECK(job.last().state == JobState::Failed);
  CHECK(job.last().reason.find("output 'model' is missing") != std::string::npos);
}

TEST_CASE("a failed try leaves no folders, however deep they are", "[job-exec][attack]") {
  Job job("[ ! -e {run}/tried ] || exit 0; touch {run}/tried; exit 3");
  job.spec.retry = {.attempts = 2, .on = {RetryCause::Failure}};
  REQUIRE(job.execute() == kTryAgain);
  test::make_deep(job.attempt() / "pass-1/work/deep", 200);
  const test::Limited<RLIMIT_NOFILE> few(64);
  CHECK(job.execute() == 0);
  CHECK_FALSE(fs::exists(job.attempt() / "pass-1"));
}

TEST_CASE("a task that is not in the batch is an error", "[job-exec]") {
  const Job job("true");
  CHECK(job.execute() == 0);
  const fs::path file = batch_file(job.run.path(), {1, 1});
  CHECK_THROWS_AS(job_exec(file, 1, 7, Allocation()), Error);
}

TEST_CASE("the try after an out-of-memory failure has twice the memory, if a node has it",
          "[job-exec]") {
  constexpr uint64_t kMebibyte = uint64_t{1} << 20;
  Job job("kill -9 $$");
  job.spec.retry = {.attempts = 4, .on = {RetryCause::OutOfMemory}};
  job.memory_bytes = 600 * kMebibyte;
  SECTION("the size of the node is unknown") {
    CHECK(job.execute() == 75);
    CHECK(job.content("raised") == "1200\n");
    CHECK_THAT(job.last().reason, Catch::StartsWith("try 2 of 4 follows with 1.2 GiB; "));
  }
  SECTION("up to the whole memory of a node") {
    job.spec.node_memory_bytes = 1000 * kMebibyte;
    CHECK(job.execute() == 75);
    job.memory_bytes = 1000 * kMebibyte;
    CHECK(job.execute() == 75);
    CHECK(job.content("raised") == "1000\n");
  }
  SECTION("not after another failure") {
    job.spec.run_command = "exit 3";
    job.spec.retry.on.push_back(RetryCause::Failure);
    CHECK(job.execute() == 75);
    CHECK(job.content("raised").empty());
  }
  CHECK(job.last().state == JobState::Queued);
}

TEST_CASE("a program that ends well has failed if the kernel killed a part of it", "[job-exec]") {
  Job job("printf x >> {run}/killed; echo 42 > $DLFLOW_OUTPUTS/answer");
  job.spec.resources.memory_bytes = uint64_t{1} << 30;
  job.kills_memory = true;
  SECTION("its job fails in SLURM as well") {
    CHECK(job.execute() == 137);
    CHECK(job.last().state == JobState::Failed);
    CHECK_THAT(job.last().reason, Catch::StartsWith("out of memory (killed by the kernel), asked "
                                                    "for 1.0 GiB"));
    CHECK_FALSE(fs::exists(job.spec.job_directory / "outputs"));
  }
  SECTION("it is tried again if the step retries for that cause") {
    job.spec.retry = {.attempts = 2, .on = {RetryCause::OutOfMemory}};
    job.memory_bytes = uint64_t{1} << 30;
    CHECK(job.execute() == kTryAgain);
    CHECK(job.content("raised") == "2048\n");
  }
  SECTION("kills from before its beginning do not count") {
    job.spec.run_command = "true";
    job.run.write("killed", "xx");
    CHECK(job.execute() == 0);
  }
}

TEST_CASE("a withdrawn attempt runs nothing", "[job-exec]") {
  const Job job("echo x >> {run}/trace");
  const std::vector<WithdrawnAttempt> attempts = {{job.spec.job, 2}, {job.spec.job, 1}};
  withdraw(job.run.path(), attempts);
  SECTION("whatever SLURM does with its job") {
    CHECK(job.execute() == 1);
    CHECK(job.content("trace").empty());
    CHECK(job.last().state == JobState::Cancelled);
  }
  SECTION("until it is submitted again") {
    want_again(job.run.path(), {&attempts[1], 1});
    CHECK(job.execute() == 0);
    CHECK(is_withdrawn(job.run.path(), job.spec.job, 2));
  }
}

TEST_CASE("the end of a pass reports its usage", "[job-exec]") {
  const Job job("i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done");
  CHECK(job.execute() == 0);
  REQUIRE(job.last().used.has_value());
  CHECK(job.last().used->cpu_time.count() > 0);
  CHECK(job.last().used->memory_bytes > 100'000);
}

TEST_CASE("a try after a timeout has the longer walltime that the step asks for", "[job-exec]") {
  Job job("[ $DLFLOW_PASS = 1 ] && sleep 60; sleep 1.5; echo done >> {run}/trace");
  job.spec.resources.walltime = std::chrono::seconds(1);
  job.spec.retry = {.attempts = 3, .on = {RetryCause::Timeout}, .walltime_factor = 30};
  job.spec.sees_run = true;
  CHECK(job.execute() == kTryAgain);
  CHECK(job.last().walltime == std::chrono::seconds(30));
  CHECK_THAT(job.last().reason,
             Catch::StartsWith("try 2 of 3 follows in 0:30; the previous one: wall"));
  CHECK(job.content("time") == "1\n");  // in minutes: 30 s, plus half a minute to record
  CHECK(job.execute() == 0);            // in 1.5 s
  CHECK(job.content("trace") == "done\n");
}

TEST_CASE("a walltime does not grow beyond its partition's limit", "[job-exec]") {
  Job job("sleep 60");
  job.spec.resources.walltime = std::chrono::seconds(1);
  job.spec.walltime_limit = std::chrono::seconds(GENERATE(1, 2));
  job.spec.retry = {.attempts = 3, .on = {RetryCause::Timeout}, .walltime_factor = 30};
  CHECK(job.execute() == kTryAgain);
  const bool grows = job.spec.walltime_limit.count() > 1;
  CHECK(job.last().walltime.count() == (grows ? 2 : 0));
  CHECK(job.content("time").empty() == !grows);
}
