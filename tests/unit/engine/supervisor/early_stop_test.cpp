#include <signal.h>
#include <unistd.h>

#include "base/file.h"
#include "engine/plan/run_directory.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"
#include "tests/unit/engine/supervisor/job.h"

using namespace dlflow;
using test::Job;
using test::SavingJob;
namespace fs = std::filesystem;

TEST_CASE("a pass that was asked to end before its beginning runs nothing", "[supervisor]") {
  Job job("touch $DLFLOW_OUTPUTS/ran");
  job.options.requeues = GENERATE(false, true);
  job.write_spec();
  const pid_t supervisor = test::begin_child([&] {
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &term, nullptr);
    ::raise(SIGTERM);
    return supervise(job.attempt(), 1, job.options);
  });
  const JobEvent end = job.finish(supervisor);
  // A scheduler that also ends jobs decides later why it did so.
  CHECK(end.state == (job.options.requeues ? std::nullopt : std::optional(JobState::Cancelled)));
  CHECK(end.reason == "stopped before it began");
  CHECK_FALSE(fs::exists(job.outputs() / "ran"));
}

TEST_CASE("a request right after the claim of a pass is not missed", "[supervisor]") {
  const Job job("touch $DLFLOW_OUTPUTS/ran");
  job.write_spec();
  const fs::path pid = job.run.path() / "pid";
  bool told = false;
  const auto tell_when_claimed = [&](uint64_t) {
    if (!told && fs::is_symlink(job.attempt() / "claim-1")) {
      told = true;
      ::kill(std::stoi(read_file(pid)), SIGTERM);
    }
    return test::Fate::made();
  };
  const auto ended = test::run_watched(tell_when_claimed, [&] {
    write_file_atomic(pid, std::to_string(::getpid()));
    ::_exit(int(supervise(job.attempt(), 1, job.options)));
  });
  if (!ended) return test::skip("processes cannot be traced here");
  CHECK(told);
  CHECK(*ended == int(Supervision::Recorded));
  const JobEvent end = attempt_events(job.spec.job_directory, job.spec.job, 1).back();
  CHECK(end.state == JobState::Cancelled);
  CHECK_FALSE(fs::exists(job.outputs() / "ran"));
}

TEST_CASE("a warning after a request to stop does not make it a walltime stop", "[supervisor]") {
  SavingJob job(
      "trap ': > $DLFLOW_OUTPUTS/told' USR1; : > $DLFLOW_OUTPUTS/begun\n"
      "until [ -e $DLFLOW_OUTPUTS/go ]; do sleep 0.02 || :; done; touch $DLFLOW_CHECKPOINTS/n; "
      "exit 75");
  const pid_t supervisor = job.begin_and_signal("begun", SIGTERM);
  job.wait_for(job.outputs() / "told");
  ::kill(supervisor, SIGUSR1);
  job.run.write(fs::relative(job.outputs() / "go", job.run.path()), "");
  const JobEvent end = job.finish(supervisor);
  CHECK(end.state == JobState::Cancelled);
  CHECK(end.reason == "stopped on request, checkpoint saved");
}

TEST_CASE("a program that a warning ended before its supervisor noticed has reached the time limit",
          "[supervisor]") {
  // The supervisor sleeps until its program has ended.
  SavingJob job(
      "kill -STOP $PPID; kill -USR1 $PPID\n"
      "(until grep -q ') Z' /proc/$$/stat; do :; done; kill -CONT $PPID) &\n"
      "touch $DLFLOW_CHECKPOINTS/n; exit 75");
  const JobEvent end = job.execute();
  CHECK(end.state == JobState::Queued);
  CHECK(end.reason == "time limit of the cluster reached; continues from its checkpoint");
}
