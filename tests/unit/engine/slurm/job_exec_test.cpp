#include "engine/slurm/job_exec.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/withdrawn.h"
#include "engine/slurm/batch_file.h"
#include "engine/supervisor/claim.h"
#include "tests/support/catch.h"
#include "tests/support/deep_tree.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
namespace fs = std::filesystem;

namespace {

constexpr int kTryAgain = 75;
constexpr int kNotTraced = 98;  ///< system calls cannot be made to fail here

/// One task of a batch, executed in a child process as in a SLURM job. `{run}` in its script is the
/// folder of the run.
class Job {
 public:
  explicit Job(std::string script) {
    for (size_t at = 0; (at = script.find("{run}")) != script.npos;) {
      script.replace(at, 5, run.path().string());
    }
    spec.run = "demo-1";
    spec.job = spec.step = "step";
    spec.run_command = script;
    spec.run_directory = run.path();
    spec.job_directory = run.path() / "steps" / "step";
    spec.cache = run.path() / "cache";
    spec.fingerprint_base = "{}";
  }

  /// The exit status of a SLURM job.
  int execute(const std::string& id = "812") const {
    const fs::path file = batch_file(run.path(), {1, 1});
    BatchLines lines;
    lines.add({1, 0, 1, spec});
    fs::remove(file);
    write_batch_file(file, lines.text());
    Allocation allocation;
    allocation.id = id;
    allocation.patience = std::chrono::milliseconds(0);
    allocation.controller_patience = std::chrono::seconds(2);
    allocation.requeue = [this](const std::string& job) {
      if (refuses_requeue) throw Error(Errc::InvalidInput, "requeue is disabled");
      std::ofstream(run.path() / "asked", std::ios::app) << "x";
      if (content("asked").size() <= silent_times) throw Error(Errc::Unavailable, "no controller");
      std::ofstream(run.path() / "requeued", std::ios::app) << job << "\n";
    };
    allocation.is_at_work = [this](const std::string& job) {
      if (warned_early) ::raise(SIGUSR1);
      return at_work == job;
    };
    if (kills_memory) {
      allocation.memory_kills = [this] { return content("killed").size(); };
    }
    allocation.memory_bytes = memory_bytes;
    allocation.raise_memory = [this](const std::string&, uint64_t bytes) {
      std::ofstream(run.path() / "raised", std::ios::app) << (bytes >> 20) << "\n";
    };
    const auto work = [&] {
      try {
        ::_exit(job_exec(file, 1, 0, allocation));
      } catch (const std::exception&) {
        ::_exit(99);
      }
    };
    if (syncs_fail) return test::run_without(SYS_fdatasync, EIO, work).value_or(kNotTraced);
    const pid_t child = ::fork();
    if (child == 0) work();
    return wait_for(child).code;
  }

  fs::path attempt() const { return attempt_directory(spec.job_directory, 1); }
  JobEvent last() const { return attempt_events(spec.job_directory, spec.job, 1).back(); }
  std::string content(const std::string& name) const {
    return read_file_if_exists(run.path() / name).value_or("");
  }

  /// As a pass leaves it whose node failed while its program ran.
  void die_in_a_pass() const {
    make_directories(attempt());
    write_file_atomic(attempt() / "job.json", to_json(spec).dump());
    CHECK(claim_pass(attempt(), 1, "812"));
    JobEvent running;
    running.state = JobState::Running;
    AppendFile(attempt() / "events.jsonl").append(to_line(running));
  }

  test::TempDir run;
  JobSpec spec;
  bool refuses_requeue = false;
  size_t silent_times = 0;  ///< that it asks for its requeue and no controller is there
  std::string at_work;      ///< the id of another SLURM job that waits or runs
  uint64_t memory_bytes = 0;
  bool syncs_fail = false;
  bool warned_early = false;  ///< of its walltime, before there is a supervisor
  bool kills_memory =
      false;  ///< the kernel has killed as many of its processes as {run}/killed is long
};

}  // namespace

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

TEST_CASE("a second SLURM job of one attempt ends as the first did", "[job-exec]") {
  const Job job("echo x >> {run}/trace; exit 4");
  CHECK(job.execute("812") == 4);
  CHECK(job.execute("813") == 4);
  CHECK(job.content("trace") == "x\n");
  CHECK(job.last().backend_id == "812");
}

TEST_CASE("a second SLURM job of one attempt comes back while the first is at work", "[job-exec]") {
  Job job("echo x >> {run}/trace");
  job.spec.retry.attempts = 2;
  job.die_in_a_pass();
  job.at_work = "812";
  CHECK(job.execute("813") == kTryAgain);
  CHECK(job.content("requeued") == "813\n");
  CHECK(job.content("trace").empty());
  CHECK(job.last().state == JobState::Running);
  SECTION("and goes on with it when SLURM has lost the first") {
    job.at_work.clear();
    CHECK(job.execute("813") == 0);
    CHECK(job.content("trace") == "x\n");
    CHECK(job.last().backend_id == "813");
  }
  SECTION("and ends without a word on record if it cannot come back") {
    job.refuses_requeue = true;
    CHECK(job.execute("813") == 1);
    CHECK(job.last().state == JobState::Running);
  }
}

TEST_CASE("a job that has ended is not run again when SLURM restarts it", "[job-exec]") {
  const Job job("echo x >> {run}/trace");
  CHECK(job.execute() == 0);
  CHECK(job.execute() == 0);
  CHECK(job.content("trace") == "x\n");
}

TEST_CASE("a pass whose node failed counts as a failed try", "[job-exec]") {
  Job job("echo x >> {run}/trace");
  job.die_in_a_pass();
  SECTION("and another follows if it may") {
    job.spec.retry.attempts = 2;
    CHECK(job.execute() == 0);
    CHECK(job.content("trace") == "x\n");
    CHECK(job.last().state == JobState::Succeeded);
    CHECK(newest_claim(job.attempt())->pass == 2);
  }
  SECTION("and the job is lost if not") {
    CHECK(job.execute() == 1);
    CHECK(job.content("trace").empty());
    CHECK(job.last().state == JobState::Lost);
    CHECK(job.execute() == 1);
    CHECK(job.content("trace").empty());
  }
}

TEST_CASE("a pass that was taken away after it saved is no failed try", "[job-exec]") {
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

TEST_CASE("a pass that was told to end was preempted, whatever became of it then", "[job-exec]") {
  Job job("echo x >> {run}/trace");
  job.die_in_a_pass();
  JobEvent told;
  told.reason = "told to end by SIGTERM";
  AppendFile(job.attempt() / "events.jsonl").append(to_line(told));
  job.spec.retry.attempts = 2;
  SECTION("and is tried again for that cause") {
    job.spec.retry.on = {RetryCause::Preempted};
    CHECK(job.execute() == 0);
    CHECK(job.last().failed_tries == 1);
  }
  SECTION("and not for another") {
    job.spec.retry.on = {RetryCause::NodeFailure};
    CHECK(job.execute() == 1);
    CHECK(job.last().state == JobState::Lost);
    CHECK(job.last().preempted);
    CHECK(job.last().reason == "its node was taken away");
  }
}

TEST_CASE("what a job records of a pass before it is on disk, or it does not go on", "[job-exec]") {
  Job job("echo x >> {run}/trace");
  job.die_in_a_pass();
  job.spec.retry.attempts = 2;
  job.syncs_fail = true;
  const int ended = job.execute();
  if (ended == kNotTraced) return test::skip("processes cannot be traced here");
  CHECK(ended == 99);
  CHECK(job.content("trace").empty());
}

TEST_CASE("a pass that was given up can publish no more", "[job-exec]") {
  const Job job("true");
  job.die_in_a_pass();
  CHECK(job.execute() == 1);
  CHECK(job.last().state == JobState::Lost);
  CHECK(newest_claim(job.attempt())->pass == 2);
}

TEST_CASE("tries are bounded, whether they failed or their node did", "[job-exec]") {
  Job job("echo x >> {run}/trace; exit 3");
  job.spec.retry = {.attempts = 3, .on = {RetryCause::Failure, RetryCause::NodeFailure}};
  job.die_in_a_pass();
  CHECK(job.execute() == kTryAgain);
  CHECK(job.execute() == 3);
  CHECK(job.content("trace") == "x\nx\n");
  CHECK(job.content("requeued") == "812\n");
  CHECK(job.last().state == JobState::Failed);
}

TEST_CASE("a requeue waits for a controller that is away", "[job-exec]") {
  Job job("echo 1 > $DLFLOW_CHECKPOINTS/n; exit 75");
  job.spec.checkpoint = CheckpointPolicy();
  job.silent_times = 5;
  CHECK(job.execute() == kTryAgain);
  CHECK(job.content("requeued") == "812\n");
  CHECK(job.last().state == JobState::Queued);
}

TEST_CASE("a job that saved a checkpoint has itself requeued and goes on", "[job-exec]") {
  Job job(
      "cd $DLFLOW_CHECKPOINTS; [ ! -e n ] || exit 0; echo 1 > n; echo half > $DLFLOW_OUTPUTS/log; "
      "exit 75");
  job.spec.checkpoint = CheckpointPolicy();
  job.spec.outputs = {{"log", "log"}};
  CHECK(job.execute("812_3") == kTryAgain);
  CHECK(job.content("requeued") == "812_3\n");
  CHECK(job.last().state == JobState::Queued);
  CHECK(job.execute("812_3") == 0);  // what it had written is still there
  CHECK(job.last().state == JobState::Succeeded);
}

TEST_CASE("a job that was cancelled while it had itself requeued does not go on", "[job-exec]") {
  Job job("echo x >> {run}/trace; echo 1 > $DLFLOW_CHECKPOINTS/n; exit 75");
  job.spec.checkpoint = CheckpointPolicy();
  CHECK(job.execute() == kTryAgain);
  write_file_atomic(job.attempt() / "cancel", "");
  CHECK(job.execute() == 1);
  CHECK(job.content("trace") == "x\n");
  CHECK(job.last().state == JobState::Cancelled);
  CHECK(job.last().reason == "cancelled by `dlflow cancel`");
}

TEST_CASE("a job that cannot be requeued fails and says why", "[job-exec]") {
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
  const test::FewDescriptors few;
  CHECK(job.execute() == 0);
  CHECK_FALSE(fs::exists(job.attempt() / "pass-1"));
}

TEST_CASE("a task that is not in the batch is an error", "[job-exec]") {
  const Job job("true");
  CHECK(job.execute() == 0);
  const fs::path file = batch_file(job.run.path(), {1, 1});
  CHECK_THROWS_AS(job_exec(file, 1, 7, Allocation()), Error);
}

TEST_CASE("the try after one that ran out of memory has twice as much, if a node has it",
          "[job-exec]") {
  constexpr uint64_t kMebibyte = uint64_t{1} << 20;
  Job job("kill -9 $$");
  job.spec.retry = {.attempts = 4, .on = {RetryCause::OutOfMemory}};
  job.memory_bytes = 600 * kMebibyte;
  SECTION("of which nothing is known") {
    CHECK(job.execute() == 75);
    CHECK(job.content("raised") == "1200\n");
    CHECK_THAT(job.last().reason, Catch::StartsWith("try 2 of 4 follows with 1.2 GiB; "));
  }
  SECTION("up to all that it has") {
    job.spec.node_memory_bytes = 1000 * kMebibyte;
    CHECK(job.execute() == 75);
    job.memory_bytes = 1000 * kMebibyte;
    CHECK(job.execute() == 75);
    CHECK(job.content("raised") == "1000\n");
  }
  SECTION("but not after another failure") {
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
  SECTION("and its job with it, as SLURM sees it") {
    CHECK(job.execute() == 137);
    CHECK(job.last().state == JobState::Failed);
    CHECK_THAT(job.last().reason, Catch::StartsWith("out of memory (killed by the kernel), asked "
                                                    "for 1.0 GiB"));
    CHECK_FALSE(fs::exists(job.spec.job_directory / "outputs"));
  }
  SECTION("and is tried again where that is retried") {
    job.spec.retry = {.attempts = 2, .on = {RetryCause::OutOfMemory}};
    job.memory_bytes = uint64_t{1} << 30;
    CHECK(job.execute() == kTryAgain);
    CHECK(job.content("raised") == "2048\n");
  }
  SECTION("but not for what was killed before it began") {
    job.spec.run_command = "true";
    job.run.write("killed", "xx");
    CHECK(job.execute() == 0);
  }
}

TEST_CASE("a warning of the walltime before there is a supervisor kills nothing", "[job-exec]") {
  Job job("echo x >> {run}/trace");
  job.spec.resources.walltime = std::chrono::hours(1);
  job.spec.retry.attempts = 2;
  job.die_in_a_pass();
  job.warned_early = true;
  CHECK(job.execute("813") == 0);
  CHECK(job.content("trace") == "x\n");
}

TEST_CASE("an attempt that was withdrawn runs nothing", "[job-exec]") {
  const Job job("echo x >> {run}/trace");
  const std::vector<WithdrawnAttempt> attempts = {{job.spec.job, 2}, {job.spec.job, 1}};
  withdraw(job.run.path(), attempts);
  SECTION("whatever SLURM does with its job") {
    CHECK(job.execute() == 1);
    CHECK(job.content("trace").empty());
    CHECK(job.last().state == JobState::Cancelled);
  }
  SECTION("until it is wanted again") {
    want_again(job.run.path(), {&attempts[1], 1});
    CHECK(job.execute() == 0);
    CHECK(is_withdrawn(job.run.path(), job.spec.job, 2));
  }
}

TEST_CASE("while SLURM cannot be asked, another job is taken to be at work", "[job-exec]") {
  const test::TempDir tools;
  fs::permissions(tools.write("squeue", "#!/bin/sh\necho 'error: no answer' >&2; exit 1\n"),
                  fs::perms::owner_all);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("PATH", (tools.path().string() + ":/usr/bin:/bin").c_str(), 1);
    ::setenv("SLURM_JOB_ID", "813", 1);
    ::_exit(current_allocation().is_at_work("812") ? 0 : 1);
  }
  CHECK(wait_for(child).code == 0);
}

TEST_CASE("the end of a pass says what it used", "[job-exec]") {
  const Job job("i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done");
  CHECK(job.execute() == 0);
  REQUIRE(job.last().used.has_value());
  CHECK(job.last().used->cpu_time.count() > 0);
  CHECK(job.last().used->memory_bytes > 100'000);
}
