#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "engine/plan/data_identity.h"
#include "engine/plan/installed.h"
#include "engine/plan/job.h"
#include "engine/plan/programs.h"
#include "engine/plan/run_directory.h"
#include "engine/supervisor/claim.h"
#include "engine/supervisor/supervisor.h"
#include "engine/supervisor/watch.h"
#include "tests/support/catch.h"
#include "tests/unit/engine/supervisor/job.h"

using namespace dlflow;
using test::Job;
using test::SavingJob;
namespace fs = std::filesystem;

namespace {

/// A job of two ranks, started by a script called `name`.
struct LaunchedJob : Job {
  LaunchedJob(const std::string& name, const std::string& script) : Job("") {
    spec.launcher = {run.write_program(name, "#!/bin/sh\n" + script).string()};
    spec.resources.ranks = 2;
    options.requeues = true;
  }
};

}  // namespace

TEST_CASE("a request to stop reaches the program, and exit 75 means it has saved", "[supervisor]") {
  const Job job("trap 'exit 75' TERM; touch $DLFLOW_OUTPUTS/ready; while :; do sleep 0.02; done");
  const pid_t supervisor = job.begin_and_signal("ready", SIGTERM);
  const JobEvent end = job.finish(supervisor);
  CHECK(end.state == JobState::Cancelled);
  CHECK(end.reason == "stopped on request, checkpoint saved");
}

TEST_CASE("a second request kills a program that ignored the first, and its children",
          "[supervisor]") {
  const Job job(
      "trap 'touch $DLFLOW_OUTPUTS/told' TERM; sleep 60 & echo $! > number; "
      "mv number $DLFLOW_OUTPUTS/child; while :; do sleep 0.02; done");
  const pid_t supervisor = job.begin_and_signal("child", SIGTERM);
  job.wait_for(job.outputs() / "told");  // two simultaneous signals would be one
  ::kill(supervisor, SIGTERM);
  CHECK(job.finish(supervisor).state == JobState::Cancelled);
  CHECK(::kill(std::stoi(read_file(job.outputs() / "child")), 0) != 0);
}

TEST_CASE("a request to stop names its pass and stops no other", "[supervisor]") {
  Job job("touch $DLFLOW_OUTPUTS/begun; while [ ! -e $DLFLOW_OUTPUTS/go ]; do sleep 0.02; done");
  job.options.token = 7;
  const pid_t supervisor = job.begin_until("begun");
  const ProcessIdentity owner = newest_claim(job.attempt())->supervisor;
  CHECK(request_stop(owner, 6));
  job.run.write(fs::relative(job.outputs() / "go", job.run.path()), "");
  CHECK(job.finish(supervisor).state == JobState::Succeeded);
}

TEST_CASE("a request reaches its pass although one for another pass came first, and two kill",
          "[supervisor]") {
  Job job("trap '' TERM; touch $DLFLOW_OUTPUTS/begun; while :; do sleep 0.02; done");
  job.options.token = 7;
  const pid_t supervisor = job.begin_until("begun");
  const ProcessIdentity owner = newest_claim(job.attempt())->supervisor;
  for (const uint64_t token : {6, 7, 7}) CHECK(request_stop(owner, token));
  const JobEvent end = job.finish(supervisor);
  CHECK(end.state == JobState::Cancelled);
  CHECK(end.exit == 128 + SIGKILL);
}

TEST_CASE("a supervisor that takes another pass keeps nothing of the last one", "[supervisor]") {
  Job first("echo $CUDA_VISIBLE_DEVICES > $DLFLOW_OUTPUTS/gpus; setsid sleep 60 & kill -9 $$");
  Job second(
      "echo ${CUDA_VISIBLE_DEVICES-unset} > $DLFLOW_OUTPUTS/gpus; cat "
      "/proc/$PPID/task/$PPID/children > $DLFLOW_OUTPUTS/children; echo $$ "
      ">> $DLFLOW_OUTPUTS/children");
  first.write_spec();
  second.write_spec();
  const pid_t supervisor = test::begin_child([&] {
    ::unsetenv("CUDA_VISIBLE_DEVICES");
    first.options.token = 1;
    first.options.gpus = "3";
    second.options.token = 2;
    supervise(first.attempt(), 1, first.options);
    ::raise(SIGTERM);  // both come too late for the first
    request_stop(newest_claim(first.attempt())->supervisor, 1);
    return supervise(second.attempt(), 1, second.options);
  });
  CHECK(second.finish(supervisor).state == JobState::Succeeded);
  CHECK(read_file(first.outputs() / "gpus") == "3\n");
  CHECK(read_file(second.outputs() / "gpus") == "unset\n");
  std::istringstream children(read_file(second.outputs() / "children"));
  const std::vector<std::string> pids{std::istream_iterator<std::string>(children), {}};
  REQUIRE(pids.size() == 2);  // only its own program
  CHECK(pids[0] == pids[1]);
}

TEST_CASE("a program with a new checkpoint is queued again at the walltime", "[supervisor]") {
  const std::string script =
      "trap 'date +%N > $DLFLOW_CHECKPOINTS/n; exit 75' USR1; while :; do sleep 0.02; done";
  SavingJob job(script);
  job.spec.resources.walltime = std::chrono::seconds(1);
  const JobEvent end = job.execute();
  CHECK(end.state == JobState::Queued);
  CHECK(end.reason == "walltime of 0:01 reached; continues from its checkpoint");
  const JobEvent again = job.execute(2);
  CHECK(again.state == JobState::Queued);
}

TEST_CASE("a job goes on only from checkpoints of the same work", "[supervisor]") {
  SavingJob job(
      "cat $DLFLOW_CHECKPOINTS/ckpt/n > $DLFLOW_OUTPUTS/found 2> /dev/null || true\n"
      "echo 1 > $DLFLOW_CHECKPOINTS/ckpt/n; exit 75");
  job.spec.checkpoint->newer = "ckpt/*";
  const auto found = [&](int pass) { return read_file(job.outputs(pass) / "found"); };
  CHECK(job.execute().state == JobState::Queued);
  CHECK(found(1).empty());
  job.execute(2);
  CHECK(found(2) == "1\n");
  SECTION("its inputs have changed: the checkpoints are put aside") {
    write_file(job.outputs(2) / "half", "");
    job.spec.fingerprint_base = R"({"other": 1})";
    job.execute(3);
    CHECK(found(3).empty());
    CHECK(read_file(job.attempt() / "checkpoints-3/ckpt/n") == "1\n");
    CHECK_FALSE(fs::exists(job.outputs(3) / "half"));  // nor from the half-done publication
    write_file(job.outputs(3) / "own", "");
    job.execute(4);
    CHECK(found(4) == "1\n");
    CHECK(fs::exists(job.outputs(4) / "own"));
  }
  SECTION("it has other resources: it goes on, but its result counts for neither") {
    job.spec.fingerprint_base = R"({"resources": {"ranks": 2}})";
    job.spec.run_command = "cat $DLFLOW_CHECKPOINTS/ckpt/n > $DLFLOW_OUTPUTS/found";
    for (const int pass : {3, 4}) {
      const JobEvent end = job.execute(pass);
      CHECK(found(pass) == "1\n");
      CHECK(end.state == JobState::Succeeded);
      CHECK(end.fingerprint.empty());
      CHECK(
          end.reason ==
          "will not be reused: it continues from checkpoints that were made with other resources");
    }
    SECTION("it has the first resources again: its result still does not count") {
      job.spec.fingerprint_base = "{}";
      CHECK(job.execute(5).fingerprint.empty());
    }
    fs::remove_all(job.spec.job_directory / "checkpoints");  // as by `--from-scratch`
    job.spec.run_command = "true";
    CHECK_FALSE(job.execute(6).fingerprint.empty());
  }
  SECTION("its parents' work is unknown, now or at that time") {
    test::Job parent("true");
    parent.spec.step = "parent";
    parent.spec.sources.outside["/nowhere"] = "was there";
    REQUIRE(parent.execute().fingerprint.empty());
    job.spec.parents = {{"parent", Json::object(), parent.spec.job_directory}};
    job.execute(3);
    CHECK(found(3).empty());
    job.execute(4);
    CHECK(found(4) == "1\n");
    job.spec.parents.clear();
    job.execute(5);
    CHECK(found(5).empty());
  }
  SECTION("an earlier version left them without a record of their work") {
    fs::remove(job.spec.job_directory / "checkpoints.of");
    job.spec.fingerprint_base = R"({"other": 1})";
    job.execute(3);
    CHECK(found(3) == "1\n");
  }
}

TEST_CASE("a checkpoint saved during an exchange of data stays doubtful, however its pass ended",
          "[supervisor]") {
  const auto [exit, state] = GENERATE(table<std::string, JobState>(
      {{"75", JobState::Queued}, {"1", JobState::Failed}, {"0", JobState::Succeeded}}));
  Job job("mv $DATA $DATA.aside; echo 1 > $DLFLOW_CHECKPOINTS/n; mv $DATA.aside $DATA; exit " +
          exit);
  const test::TempDir elsewhere;
  const auto data = elsewhere.write("set/data", "v1").parent_path();
  job.spec.checkpoint = CheckpointPolicy{};
  job.spec.environment = {{"DATA", data.string()}};
  job.spec.sources.outside[data] = data_identity(data);
  CHECK(job.execute().state == state);
  job.spec.run_command = "cp $DLFLOW_CHECKPOINTS/n $DLFLOW_OUTPUTS/n";
  const JobEvent end = job.execute(2);
  CHECK(end.state == JobState::Succeeded);
  CHECK(end.fingerprint.empty());
  CHECK(end.reason ==
        "will not be reused: it continues from a checkpoint that cannot be trusted: " +
            data.string() + " was replaced while it ran, or its content changed for a time");
}

TEST_CASE("a checkpoint saved before something was restored stays doubtful", "[supervisor]") {
  Job job("echo v2 > $INPUT; echo 1 > $DLFLOW_CHECKPOINTS/n; exit 75");
  const test::TempDir elsewhere;
  fs::path input = elsewhere.write_program("input", "v1\n");
  Job parent("echo v1 > $DLFLOW_OUTPUTS/o");
  std::string named;
  FreshFileHashes hashes;
  SECTION("the program") {
    job.spec.sources.programs[input] = program_identity(input, "/", hashes);
    named = "the program " + input.string() + " changed";
  }
  SECTION("packages") {
    job.spec.sources.packages[input] = installed_packages(input, hashes);
    named = "the packages of its `environment:` changed";
  }
  SECTION("an output of a parent") {
    parent.spec.outputs = {{"o", "o"}};
    REQUIRE(parent.execute().state == JobState::Succeeded);
    job.spec.parents = {{"parent", Json::object(), parent.spec.job_directory}};
    input = parent.outputs() / "o";
    fs::permissions(input, fs::perms::owner_write, fs::perm_options::add);
    named = "of step parent, outputs/o was changed";
  }
  job.spec.checkpoint = CheckpointPolicy{};
  job.spec.environment = {{"INPUT", input.string()}};
  CHECK(job.execute().state == JobState::Queued);
  { std::ofstream(input) << "v1\n"; }
  job.spec.run_command = "cp $DLFLOW_CHECKPOINTS/n $DLFLOW_OUTPUTS/n";
  const JobEvent end = job.execute(2);
  CHECK(end.state == JobState::Succeeded);
  CHECK(end.fingerprint.empty());
  CHECK_THAT(end.reason, Catch::Contains("a checkpoint that cannot be trusted: " + named));
}

TEST_CASE("a checkpoint saved under other data than planned stays doubtful", "[supervisor]") {
  Job job("cat $DATA > $DLFLOW_CHECKPOINTS/n; exit 75");
  const test::TempDir elsewhere;
  const auto data = elsewhere.write("set/data", "v1").parent_path();
  const auto other = elsewhere.write("other/data", "v2").parent_path();
  const auto hidden = elsewhere.path() / "hidden";
  job.spec.checkpoint = CheckpointPolicy{};
  job.spec.environment = {{"DATA", (data / "data").string()}};
  job.spec.sources.outside[data] = data_identity(data);
  fs::rename(data, hidden);  // its files keep their times
  fs::rename(other, data);
  CHECK(job.execute().state == JobState::Queued);
  fs::rename(data, other);
  fs::rename(hidden, data);
  CHECK(data_identity(data) == job.spec.sources.outside[data]);
  job.spec.run_command = "cp $DLFLOW_CHECKPOINTS/n $DLFLOW_OUTPUTS/n || true";
  SECTION("the job continues from it") {
    for (const int pass : {2, 3}) {
      const JobEvent end = job.execute(pass);
      CHECK(end.state == JobState::Succeeded);
      CHECK(end.fingerprint.empty());
      CHECK(end.reason ==
            "will not be reused: it continues from a checkpoint that cannot be trusted: " +
                data.string() + " changed after the run was planned");
    }
  }
  SECTION("the job begins anew") {
    fs::remove(job.spec.job_directory / "checkpoints/n");
    CHECK_FALSE(job.execute(2).fingerprint.empty());
  }
}

TEST_CASE(
    "a program that asks for another pass may give a reason, and earlier reasons stay with their "
    "passes",
    "[supervisor]") {
  SavingJob job(
      "[ $DLFLOW_PASS = 2 ] || echo 'error: rank 1 died' >&2; echo a page of mpirun >&2\n"
      "[ $DLFLOW_PASS = 3 ] || date +%N > $DLFLOW_CHECKPOINTS/n; exit 75");
  const JobEvent first = job.execute();
  CHECK(first.state == JobState::Queued);
  CHECK(first.reason == "saved a checkpoint and asked to be run again; error: rank 1 died");
  CHECK(job.execute(2).reason == "saved a checkpoint and asked to be run again");
  const JobEvent last = job.execute(3);
  CHECK(last.state == JobState::Failed);
  CHECK(last.reason ==
        "exit 75 (run me again), but no progress since the last checkpoint; error: rank 1 died");
}

TEST_CASE("a time limit that only the cluster knows is not called a walltime", "[supervisor]") {
  SavingJob job(
      "trap 'exit 75' USR1; date +%N > $DLFLOW_CHECKPOINTS/n; kill -USR1 $PPID\n"
      "while :; do sleep 0.02; done");
  CHECK(job.execute().reason == "time limit of the cluster reached; continues from its checkpoint");
}

TEST_CASE("a script waits for its program to save", "[supervisor]") {
  SavingJob job(
      "sh -c 'trap \"sleep 0.1; date +%N > $DLFLOW_CHECKPOINTS/n; exit 75\" USR1; "
      ": > $DLFLOW_OUTPUTS/ready; while :; do sleep 0.02; done'\n"
      "echo not reached");
  const pid_t supervisor = job.begin_and_signal("ready", SIGUSR1);
  CHECK(job.finish(supervisor).state == JobState::Queued);
  CHECK(read_file(job.attempt() / "stdout").empty());
}

TEST_CASE("only a pass that was asked to go on finds the state of the previous one",
          "[supervisor]") {
  Job job(
      "ls $DLFLOW_OUTPUTS; touch here $DLFLOW_OUTPUTS/there; ls > $DLFLOW_OUTPUTS/seen\n"
      "[ $DLFLOW_PASS != 1 ] || { touch $DLFLOW_CHECKPOINTS/1; exit 75; }");
  const auto seen = [&](int pass) { return read_file(job.outputs(pass) / "seen"); };
  job.spec.checkpoint = CheckpointPolicy{};
  SECTION("it saved a checkpoint") {
    CHECK(job.execute(1).state == JobState::Queued);
    CHECK(job.execute(2).state == JobState::Succeeded);
    CHECK(fs::exists(job.outputs(2) / "there"));
    CHECK_FALSE(fs::exists(job.outputs(1)));
    CHECK(fs::canonical(job.spec.job_directory / "outputs") == fs::canonical(job.outputs(2)));
  }
  SECTION("its node was abandoned, and may still write") {
    fs::create_directories(job.outputs(1));
    job.run.write(fs::relative(job.outputs(1) / "half", job.run.path()), "");
    JobEvent lost;
    lost.state = JobState::Queued;  // "try 2 of 2 follows": no exit status
    AppendFile(job.attempt() / "events.jsonl").append(to_line(lost));
    CHECK(job.execute(2).state == JobState::Succeeded);
    CHECK_FALSE(fs::exists(job.outputs(2) / "half"));
    job.run.write(fs::relative(job.outputs(1) / "late", job.run.path()), "");
    CHECK_FALSE(fs::exists(job.spec.job_directory / "outputs/late"));
  }
  CHECK(seen(2).find("here") != std::string::npos);
}

TEST_CASE("a program without a new checkpoint has timed out at the walltime", "[supervisor]") {
  Job idle("trap 'exit 75' USR1; while :; do sleep 0.02; done");
  idle.spec.checkpoint = CheckpointPolicy{};
  idle.spec.resources.walltime = std::chrono::seconds(1);
  CHECK(idle.execute().reason == "walltime of 0:01 reached; no progress since the last checkpoint");

  Job slow("sleep 60");
  slow.spec.resources.walltime = std::chrono::seconds(1);
  CHECK(slow.execute().state == JobState::TimedOut);
}

TEST_CASE("a program that cannot save has its whole walltime", "[supervisor]") {
  Job job("sleep 0.9");
  job.spec.resources.walltime = std::chrono::seconds(1);
  CHECK(job.execute().state == JobState::Succeeded);
}

TEST_CASE("the program dies with its supervisor", "[supervisor]") {
  const Job job(
      "echo $$ > $DLFLOW_OUTPUTS/pid.tmp; mv $DLFLOW_OUTPUTS/pid.tmp $DLFLOW_OUTPUTS/pid; exec "
      "sleep 60");
  const pid_t supervisor = job.begin_until("pid");
  const auto program = identify(std::stoi(read_file(job.outputs() / "pid")));
  REQUIRE(program.has_value());
  ::kill(supervisor, SIGKILL);
  wait_for(supervisor);
  for (int i = 0; i < 6000 && liveness(*program) == Liveness::Alive; ++i) ::usleep(10'000);
  CHECK(liveness(*program) == Liveness::Dead);
  CHECK(liveness(newest_claim(job.attempt())->supervisor) == Liveness::Dead);
}

TEST_CASE(
    "a child that dies of the request to save before its shell gets it does not prevent the trap",
    "[supervisor]") {
  // Like SLURM, which signals the processes of a step one after the other.
  SavingJob job(
      "trap 'date +%N > $DLFLOW_CHECKPOINTS/n; exit 75' USR1\n"
      "( sleep 0.3; kill -USR1 $$ ) &\n"
      "sh -c 'kill -USR1 $$'; echo not reached");
  const JobEvent end = job.execute();
  CHECK(end.state == JobState::Queued);
  CHECK(end.exit == 75);
}

TEST_CASE("SIGUSR1 announces the walltime, whatever the supervisor's clock", "[supervisor]") {
  SavingJob job(
      "trap 'touch $DLFLOW_CHECKPOINTS/n; exit 75' USR1; : > $DLFLOW_OUTPUTS/begun; "
      "while :; do sleep 0.02; done");
  const pid_t supervisor = job.begin_and_signal("begun", SIGUSR1);
  CHECK(job.finish(supervisor).state == JobState::Queued);
}

TEST_CASE("a job that requeues itself leaves the meaning of SIGTERM to the scheduler",
          "[supervisor]") {
  Job job("touch $DLFLOW_OUTPUTS/begun; sleep 60");
  job.options.requeues = true;
  job.options.backend_id = "812_3";
  const pid_t supervisor = job.begin_and_signal("begun", SIGTERM);
  const JobEvent end = job.finish(supervisor);
  CHECK_FALSE(end.state.has_value());
  CHECK(end.reason == "stopped by SIGTERM");
  CHECK(end.backend_id == "812_3");
}

TEST_CASE("a SIGTERM is on record before the program has ended", "[supervisor]") {
  Job job("trap '' TERM; touch $DLFLOW_OUTPUTS/begun; sleep 60");
  job.options.requeues = true;
  const pid_t supervisor = job.begin_and_signal("begun", SIGTERM);
  const auto events = [&job] { return attempt_events(job.spec.job_directory, job.spec.job, 1); };
  for (int i = 0; i < 6000 && events().back().state; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(events().back().reason == "asked to end by SIGTERM");
  ::kill(supervisor, SIGTERM);  // at once
  CHECK(job.finish(supervisor).exit == 128 + SIGKILL);
}

TEST_CASE("a program whose pass was taken over is ended, and leaves no record", "[supervisor]") {
  SavingJob job(
      "trap 'echo told > $DLFLOW_OUTPUTS/end; exit 75' TERM; touch $DLFLOW_OUTPUTS/begun\n"
      "while :; do sleep 0.02; done");
  job.options.requeues = true;
  job.options.look_again = std::chrono::milliseconds(20);
  const pid_t supervisor = job.begin_until("begun");
  SECTION("taken over in this attempt") { CHECK(claim_pass(job.attempt(), 2, "813")); }
  SECTION("taken over in the next") {
    make_directories(attempt_directory(job.spec.job_directory, 2));
  }
  CHECK(wait_for(supervisor).code == int(Supervision::Unrecorded));
  CHECK(read_file(job.outputs() / "end") == "told\n");
  CHECK(attempt_events(job.spec.job_directory, job.spec.job, 1).back().state == JobState::Running);
}

TEST_CASE("a job that requeues itself retries the causes of `retry:`, and no others",
          "[supervisor]") {
  Job job("exit 3");
  job.options.requeues = true;
  job.spec.retry = {.attempts = 2, .on = {RetryCause::Failure}};
  const JobEvent first = job.execute();
  CHECK(first.state == JobState::Queued);
  CHECK(first.reason == "try 2 of 2 follows; the previous one: exit 3");
  CHECK(first.failed_tries == 1);
  const JobEvent second = job.execute(2);
  CHECK(second.state == JobState::Failed);
  CHECK(second.reason == "exit 3");
}

TEST_CASE("a pass that fails on its checkpoint is followed by one from the previous checkpoint",
          "[supervisor]") {
  Job job(R"(
    n=$(cat ckpt/last.pt 2>/dev/null || echo 0)
    [ $n != torn ] || exit 1
    echo $n >> $DLFLOW_OUTPUTS/begun
    case $DLFLOW_PASS in 1) echo 1 > ckpt/last.pt; exit 75;; 2) echo torn > ckpt/last.pt; exit 75;; esac
  )");
  job.spec.checkpoint.emplace().newer = "ckpt/*.pt";
  CHECK(job.execute(1).state == JobState::Queued);
  CHECK(job.execute(2).state == JobState::Queued);
  const JobEvent failed = job.execute(3);
  CHECK(failed.state == JobState::Queued);
  CHECK(
      failed.reason ==
      "failed before it had saved anything (exit 1); continues from the checkpoint before its last "
      "one");
  CHECK(read_file(job.attempt() / "checkpoints-3-unread/ckpt/last.pt") == "torn\n");
  CHECK(job.execute(4).state == JobState::Succeeded);
  CHECK(read_file(job.outputs(4) / "begun") == "0\n1\n1\n");
  CHECK_FALSE(fs::exists(job.spec.job_directory / "checkpoints.kept"));
}

TEST_CASE("a pass that fails on the only checkpoint reports how to begin anew", "[supervisor]") {
  Job job("[ ! -e ckpt/last.pt ] || exit 1; echo torn > ckpt/last.pt; exit 75");
  job.spec.checkpoint.emplace().newer = "ckpt/*.pt";
  CHECK(job.execute(1).state == JobState::Queued);
  const JobEvent end = job.execute(2);
  CHECK(end.state == JobState::Failed);
  CHECK(end.reason ==
        "exit 1; if its checkpoint is the cause, `dlflow resubmit demo-1 --from-scratch` starts "
        "from the beginning");
}

TEST_CASE("a half-written file of a killed program does not count", "[supervisor]") {
  Job job(R"(
    exec python3 -c '
import os, signal, time
n = int(open("ckpt/last.pt").read()) if os.path.exists("ckpt/last.pt") else 0
if n == 0:
  open("ckpt/last.pt", "w").write("1")
  os._exit(75)
file = open("ckpt/last.pt", "w")
file.write("half")
file.flush()
time.sleep(60)
'
  )");
  CheckpointPolicy& policy = job.spec.checkpoint.emplace();
  policy.signal = CheckpointPolicy::Signal::Term;
  policy.newer = "ckpt/*.pt";
  CHECK(job.execute(1).state == JobState::Queued);
  job.spec.resources.walltime = std::chrono::seconds(3);
  const JobEvent end = job.execute(2);
  CHECK(end.state == JobState::TimedOut);
  CHECK(
      end.reason ==
      "walltime of 0:03 reached, while ckpt/last.pt was being written; give `lead:` more time, or "
      "write it under another name and rename it");
  CHECK(read_file(job.spec.job_directory / "checkpoints/ckpt/last.pt") == "1");
  CHECK(read_file(job.attempt() / "checkpoints-2-torn/ckpt/last.pt") == "half");
}

TEST_CASE("two passes in a row that report the step with which they began make no progress",
          "[supervisor]") {
  Job job(
      "date +%N > ckpt/last.pt; echo '{\"step\": 1000, \"loss\": 0.5}' >> $DLFLOW_METRICS; exit "
      "75");
  job.spec.checkpoint.emplace().newer = "ckpt/*.pt";
  CHECK(job.execute(1).idle_passes == 0);
  CHECK(job.execute(2).idle_passes == 1);
  const JobEvent end = job.execute(3);
  CHECK(end.state == JobState::TimedOut);
  CHECK_THAT(end.reason, Catch::StartsWith("no progress: two passes in a row"));
}

TEST_CASE(
    "a script that only saves on SIGTERM goes on in its next pass, as long as it makes progress",
    "[supervisor]") {
  // Two passes save; the third is asked, saves nothing, and stops (P5).
  Job job(R"(
    trap '[ "$n" -gt 2 ] || echo $n > ckpt/last.pt; exit 1' TERM
    n=$(($(cat ckpt/last.pt 2>/dev/null || echo 0) + 1))
    echo $n >> $DLFLOW_OUTPUTS/begun
    while :; do sleep 0.02; done
  )");
  job.spec.resources.walltime = std::chrono::seconds(2);
  CheckpointPolicy& policy = job.spec.checkpoint.emplace();
  policy.signal = CheckpointPolicy::Signal::Term;
  policy.lead = std::chrono::seconds(1);
  policy.newer = "ckpt/*.pt";
  for (const int pass : {1, 2}) {
    const JobEvent end = job.execute(pass);
    CHECK(end.state == JobState::Queued);
    CHECK(end.exit == 75);
    CHECK(end.reason == "walltime of 0:02 reached; continues from ckpt/last.pt");
  }
  const JobEvent end = job.execute(3);
  CHECK(end.state == JobState::TimedOut);
  CHECK(read_file(job.outputs(3) / "begun") == "1\n2\n3\n");
  CHECK(read_file(job.spec.job_directory / "checkpoints/ckpt/last.pt") == "2\n");
}

TEST_CASE("a launcher that waits for a dead node is ended, and the next try follows",
          "[stopping]") {
  // srun silently waits for the task on that node, and its own status is 0 in the end.
  LaunchedJob job(
      "srun",
      "trap 'echo srun: error: Timed out waiting for job step to complete >&2; exit 0' TERM\n"
      "echo 'srun: error: b1: task 0: Exited with exit code 75' >&2\n"
      "while :; do sleep 0.1; done\n");
  job.spec.retry = {.attempts = 2, .on = {RetryCause::NodeFailure}};
  const JobEvent end = job.execute();
  CHECK(end.state == JobState::Queued);
  CHECK(end.reason == "try 2 of 2 follows; the previous one: a node failed");
  CHECK(end.failed_tries == 1);
}

TEST_CASE("a further step is started for ranks that a launcher could not start on a returned node",
          "[stopping]") {
  // The status of srun is meaningless here.
  const auto [name, status, said] = GENERATE(table<const char*, int, std::string>(
      {{"srun", 0, "srun: error: task 1 launch failed: Unspecified error"},
       {"srun", 1, "srun: error: task 1 launch failed: Unspecified error"},
       {"mpirun", 1, "An ORTE daemon has unexpectedly failed after launch and before"}}));
  const LaunchedJob job(
      name,
      "for step in 0 1; do\n"
      "  [ -e $DLFLOW_OUTPUTS/step-$step ] || break\n"
      "done\n"
      "if [ -e $DLFLOW_OUTPUTS/step-1 ]; then touch $DLFLOW_OUTPUTS/step-2; exit 0; fi\n"
      "touch $DLFLOW_OUTPUTS/step-$step\n"
      "echo '" +
          said + "' >&2; exit " + std::to_string(status) + "\n");
  CHECK(job.execute().state == JobState::Succeeded);
  CHECK(fs::exists(job.outputs() / "step-2"));
}

TEST_CASE("a success under mpirun is not started again because of its output", "[stopping]") {
  const LaunchedJob job(
      "mpirun",
      "echo once >> $DLFLOW_OUTPUTS/runs\n"
      "echo 'An ORTE daemon has unexpectedly failed after launch and before' >&2\n");
  CHECK(job.execute().state == JobState::Succeeded);
  CHECK(read_file(job.outputs() / "runs") == "once\n");
}

TEST_CASE("a step whose mpirun lost a node has not succeeded, whatever its status", "[stopping]") {
  LaunchedJob job("mpirun",  // the report and the status of Open MPI 5.0.7
                  "echo 'PRTE has lost communication with a remote daemon.' >&2\n"
                  "echo '  Remote daemon: [prterun-a-17@0,1] on node b2' >&2\n");
  job.options.requeues = false;
  const JobEvent end = job.execute();
  CHECK(end.state == JobState::Lost);
  CHECK(end.reason == "node b2 failed");
}

TEST_CASE("a step that srun cannot start has not succeeded, whatever its status", "[stopping]") {
  LaunchedJob job("srun", "echo 'srun: error: task 1 launch failed: Unspecified error' >&2\n");
  job.options.requeues = false;
  const JobEvent end = job.execute();
  CHECK(end.state == JobState::Lost);
  CHECK(end.reason == "a node could not start its ranks");
}
