#include "engine/supervisor/supervisor.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <iterator>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "engine/plan/job.h"
#include "engine/plan/run_directory.h"
#include "engine/supervisor/claim.h"
#include "engine/supervisor/inherited.h"
#include "engine/supervisor/results.h"
#include "engine/supervisor/watch.h"
#include "tests/support/catch.h"
#include "tests/support/failing_syscall.h"
#include "tests/unit/engine/supervisor/job.h"

using namespace dlflow;
using test::Job;
namespace fs = std::filesystem;

TEST_CASE("a long text among the outputs is no file", "[supervisor]") {
  const Job job("printf '{\"text\": \"%0300d\"}' 1 > $DLFLOW_OUTPUTS/outputs.json");
  const JobEvent end = job.execute();
  CHECK(end.state == JobState::Succeeded);
  CHECK(end.outputs.at("text").at("value").get<std::string>().size() == 300);
}

TEST_CASE("a reason is plain text, as a terminal shows it", "[supervisor]") {
  const Job job(
      "printf 'epoch 1:  50%%\\repoch 2\\r\\033[31merror: lost\\033[0m it\\n' >&2; exit 3");
  CHECK_THAT(job.execute().reason, Catch::EndsWith("error: lost it"));
}

TEST_CASE("a job that succeeds publishes its outputs and records their hashes", "[supervisor]") {
  Job job(
      "echo 42 > $DLFLOW_OUTPUTS/answer; echo '{\"accuracy\": 0.9, \"note\": \"x\"}' > "
      "$DLFLOW_SUMMARY");
  job.spec.outputs = {{"answer", "answer"}};
  job.spec.require = {{"accuracy", ">=", 0.88}};
  const JobEvent end = job.execute();
  CHECK(end.state == JobState::Succeeded);
  CHECK(end.exit == 0);
  CHECK(end.metrics == Json{{"accuracy", 0.9}});
  const fs::path published = job.spec.job_directory / "outputs" / "answer";
  CHECK(end.outputs["answer"]["value"] == published.string());
  CHECK(end.outputs["answer"]["sha256"] ==
        "084c799cd551dd1d8d5c5f9a5d593b2e931f5e36122ee5c793c1d08a19839cc0");
  CHECK(read_file(published) == "42\n");
  CHECK(published_result(job.spec.job_directory).has_value());
}

TEST_CASE("a failure is told with its exit status and the line that says why", "[supervisor]") {
  const JobEvent end =
      Job("echo 'error: loss is NaN at step 412' >&2; echo bye >&2; exit 3").execute();
  CHECK(end.state == JobState::Failed);
  CHECK(end.exit == 3);
  CHECK(end.reason == "exit 3: error: loss is NaN at step 412");
}

TEST_CASE("a signal is called by its name", "[supervisor]") {
  const JobEvent end = Job("kill -SEGV $$").execute();
  CHECK(end.state == JobState::Failed);
  CHECK(end.exit == 128 + SIGSEGV);
  CHECK(end.reason.find("Segmentation fault") != std::string::npos);
}

TEST_CASE("a missing program, output or metric fails the job and is named", "[supervisor]") {
  Job missing("");
  missing.spec.run_command = {"no-such-program"};
  CHECK(missing.execute().reason == "there is no program 'no-such-program' in PATH");

  Job output("true");
  output.spec.outputs = {{"model", "model.bin"}};
  CHECK(output.execute().reason ==
        "output 'model' is missing: $DLFLOW_OUTPUTS/model.bin was not written");

  Job metric("echo '{\"loss\": 1}' > $DLFLOW_SUMMARY");
  metric.spec.require = {{"accuracy", ">=", 0.5}};
  CHECK(metric.execute().reason == "no metric 'accuracy', required >= 0.5; the step reported loss");
}

TEST_CASE("each comparison of a requirement means what it says, at its bound, too",
          "[supervisor]") {
  JobSpec spec;
  const auto holds = [&](const std::string& comparison, double value) {
    spec.require = {{"loss", comparison, 0.5}};
    try {
      check_requirements(spec, {{"loss", value}});
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  using Answers = std::vector<bool>;  // below the bound, at it, above it
  const auto answers = [&](const std::string& comparison) {
    return Answers{holds(comparison, 0.4), holds(comparison, 0.5), holds(comparison, 0.6)};
  };
  CHECK(answers("<") == Answers{true, false, false});
  CHECK(answers("<=") == Answers{true, true, false});
  CHECK(answers("==") == Answers{false, true, false});
  CHECK(answers(">=") == Answers{false, true, true});
  CHECK(answers(">") == Answers{false, false, true});
}

TEST_CASE("a metric may be NaN or infinite, and NaN meets no requirement", "[supervisor]") {
  Job job("echo '{\"loss\": NaN, \"best\": -Infinity, \"note\": \"x\"}' > $DLFLOW_SUMMARY");
  const JobEvent end = job.execute();
  CHECK(end.state == JobState::Succeeded);
  CHECK(end.metrics == Json({{"loss", "NaN"}, {"best", "-Infinity"}}));

  Job required("echo '{\"loss\": NaN}' > $DLFLOW_SUMMARY");
  required.spec.require = {{"loss", "<", 1}};
  CHECK(required.execute().reason == "loss is NaN, which is not a number; required < 1");
  JobSpec spec;
  spec.require = {{"best", "<", 0}};
  CHECK_NOTHROW(check_requirements(spec, {{"best", "-Infinity"}}));
  spec.require = {{"best", "<", 0}};
  CHECK_THROWS_WITH(check_requirements(spec, {{"best", "Infinity"}}), "best is inf, required < 0");
}

TEST_CASE("a list that is too long for a variable is told where it goes", "[supervisor]") {
  const std::string long_list(200'000, 'x');
  Job variable("true");
  variable.spec.environment = {{"SHARDS", long_list}};
  CHECK(variable.execute().reason ==
        "its variable SHARDS has 195.3 KiB, and a program can be given 128.0 KiB; put a long list "
        "into the step's `with: {NAME: …}`, which the program finds in the JSON file $DLFLOW_WITH");
  Job argument("");
  argument.spec.run_command = {"true", long_list};
  CHECK(argument.execute().reason.starts_with("an argument of it has 195.3 KiB"));
  Job many("");
  many.spec.run_command = Json::array({"true"});
  for (int i = 0; i < 40'000; ++i) many.spec.run_command.push_back(std::string(200, 'x'));
  CHECK(many.execute().reason.starts_with("its arguments and variables have "));

  Job file("cp $DLFLOW_WITH $DLFLOW_OUTPUTS/seen");
  file.spec.with = {{"shards", {long_list}}};
  CHECK(file.execute().state == JobState::Succeeded);
  CHECK(Json::parse(read_file(file.outputs() / "seen")) == file.spec.with);
}

TEST_CASE("a job gets the caller's variables that are listed, and those that a profile adds",
          "[supervisor]") {
  const std::map<std::string, std::string> here = {{"SCRATCH", "/s"},
                                                   {"WORK", "/w"},
                                                   {"HF_HOME", "/h"},
                                                   {"VIRTUAL_ENV", "/v"},
                                                   {"I_MPI_FABRICS", "x"},
                                                   {"LOADEDMODULES", "m"},
                                                   {"ROCR_VISIBLE_DEVICES", "1"},
                                                   {"WANDB_MODE", "off"},
                                                   {"WANDB_DIR", "/d"},
                                                   {"WAND", "no"}};
  for (const auto& [name, value] : here) ::setenv(name.c_str(), value.c_str(), 1);
  const auto seen = [](const Job& job) {
    job.execute();
    std::map<std::string, std::string> variables;
    for (const std::string& line : split(read_file(job.outputs() / "env"), '\n')) {
      variables.emplace(line.substr(0, line.find('=')), line.substr(line.find('=') + 1));
    }
    return variables;
  };
  Job job("env > $DLFLOW_OUTPUTS/env");
  const auto variables = seen(job);
  for (const auto& [name, value] : here) {
    CAPTURE(name);
    const bool expected = !name.starts_with("WAND");
    CHECK(variables.contains(name) == expected);
    CHECK(is_inherited(name) == expected);
  }
  Job more("env > $DLFLOW_OUTPUTS/env");
  more.spec.inherit = {"WANDB_*"};
  more.spec.environment = {{"WANDB_DIR", "of the step"}};
  const auto with_more = seen(more);
  CHECK(with_more.at("WANDB_MODE") == "off");
  CHECK(with_more.at("WANDB_DIR") == "of the step");
  CHECK_FALSE(with_more.contains("WAND"));
}

TEST_CASE("a job does not run on a parent without a record of success", "[supervisor]") {
  Job job("touch $DLFLOW_OUTPUTS/ran");
  job.spec.parents = {{"data", Json::object(), job.run.path() / "steps" / "data"}};
  const JobEvent end = job.execute();
  CHECK(end.state == JobState::Blocked);
  CHECK(end.reason.find("step must not run: data has no record") == 0);
  CHECK_FALSE(fs::exists(job.outputs() / "ran"));
}

TEST_CASE("outputs of parents reach the command, a list for all elements of a matrix",
          "[supervisor]") {
  Job parent("echo x > $DLFLOW_OUTPUTS/f");
  parent.spec.outputs = {{"f", "f"}};
  REQUIRE(parent.execute().state == JobState::Succeeded);

  Job job("");
  const std::string reference = "${{ steps.make.outputs.f }}";
  job.spec.run_command = {"sh", "-c", "printf '%s' \"$1\" > $DLFLOW_OUTPUTS/seen", "sh", reference};
  job.spec.parents = {{"make", {{"i", 1}}, parent.spec.job_directory},
                      {"make", {{"i", 2}}, parent.spec.job_directory}};
  CHECK(job.execute().state == JobState::Succeeded);
  const std::string path = (parent.spec.job_directory / "outputs" / "f").string();
  CHECK(Json::parse(read_file(job.outputs() / "seen")) == Json{path, path});
}

TEST_CASE("a false condition skips the job, and so does a skipped parent that it uses",
          "[supervisor]") {
  Job job("true");
  job.spec.condition = false;
  CHECK(job.execute().state == JobState::Skipped);

  Job child("");
  child.spec.run_command = {"echo", "${{ steps.step.outputs.f }}"};
  child.spec.parents = {{"step", Json::object(), job.spec.job_directory}};
  CHECK(child.execute().state == JobState::Skipped);
  Job after("true");  // waits for it, but uses nothing of it
  after.spec.parents = child.spec.parents;
  CHECK(after.execute().state == JobState::Succeeded);
}

TEST_CASE("of two supervisors for one pass the second leaves at once", "[supervisor]") {
  const Job job("echo ran >> $DLFLOW_OUTPUTS/../../count");
  CHECK(job.execute().state == JobState::Succeeded);
  const pid_t second = job.begin();
  int status = 0;
  ::waitpid(second, &status, 0);
  CHECK(WEXITSTATUS(status) == int(Supervision::NotOurs));
  CHECK(read_file(job.attempt() / "count") == "ran\n");
}

TEST_CASE("an end that is not on disk for good is not taken for recorded", "[supervisor]") {
  const Job job("true");
  job.write_spec();
  const pid_t child = ::fork();
  if (child == 0) {
    if (!test::fail_syscall(SYS_fdatasync, EIO)) ::_exit(99);
    ::_exit(int(supervise(job.attempt(), 1, job.options)));
  }
  CHECK(wait_for(child).code == int(Supervision::Unrecorded));
}

TEST_CASE("a request to stop reaches the program, and exit 75 is a saved checkpoint",
          "[supervisor]") {
  const Job job("trap 'exit 75' TERM; touch $DLFLOW_OUTPUTS/ready; while :; do sleep 0.02; done");
  const pid_t supervisor = job.begin();
  job.wait_for(job.outputs() / "ready");
  ::kill(supervisor, SIGTERM);
  const JobEvent end = job.finish(supervisor);
  CHECK(end.state == JobState::Cancelled);
  CHECK(end.reason == "stopped on request, checkpoint saved");
}

TEST_CASE("a second request kills a program that does not listen, and what it started",
          "[supervisor]") {
  const Job job(
      "trap '' TERM; sleep 60 & echo $! > number; mv number $DLFLOW_OUTPUTS/child; while :; do "
      "sleep 0.02; done");
  const pid_t supervisor = job.begin();
  job.wait_for(job.outputs() / "child");
  ::kill(supervisor, SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // two signals at once would be one
  ::kill(supervisor, SIGTERM);
  CHECK(job.finish(supervisor).state == JobState::Cancelled);
  CHECK(::kill(std::stoi(read_file(job.outputs() / "child")), 0) != 0);
}

TEST_CASE("a request to stop names its pass and stops no other", "[supervisor]") {
  Job job("touch $DLFLOW_OUTPUTS/begun; while [ ! -e $DLFLOW_OUTPUTS/go ]; do sleep 0.02; done");
  job.options.token = 7;
  const pid_t supervisor = job.begin();
  job.wait_for(job.outputs() / "begun");
  const ProcessIdentity owner = newest_claim(job.attempt())->supervisor;
  CHECK(request_stop(owner, 6));
  job.run.write(fs::relative(job.outputs() / "go", job.run.path()), "");
  CHECK(job.finish(supervisor).state == JobState::Succeeded);
}

TEST_CASE("a request for its pass reaches it behind one for another, and two kill",
          "[supervisor]") {
  Job job("trap '' TERM; touch $DLFLOW_OUTPUTS/begun; while :; do sleep 0.02; done");
  job.options.token = 7;
  const pid_t supervisor = job.begin();
  job.wait_for(job.outputs() / "begun");
  const ProcessIdentity owner = newest_claim(job.attempt())->supervisor;
  for (const uint64_t token : {6, 7, 7}) CHECK(request_stop(owner, token));
  const JobEvent end = job.finish(supervisor);
  CHECK(end.state == JobState::Cancelled);
  CHECK(end.exit == 128 + SIGKILL);
}

TEST_CASE("a supervisor that takes another pass brings nothing of the last one", "[supervisor]") {
  Job first("echo $CUDA_VISIBLE_DEVICES > $DLFLOW_OUTPUTS/gpus; setsid sleep 60 & kill -9 $$");
  Job second(
      "echo ${CUDA_VISIBLE_DEVICES-unset} > $DLFLOW_OUTPUTS/gpus; cat "
      "/proc/$PPID/task/$PPID/children > $DLFLOW_OUTPUTS/children; echo $$ "
      ">> $DLFLOW_OUTPUTS/children");
  first.write_spec();
  second.write_spec();
  const pid_t supervisor = ::fork();
  if (supervisor == 0) {
    ::unsetenv("CUDA_VISIBLE_DEVICES");
    first.options.token = 1;
    first.options.gpus = "3";
    second.options.token = 2;
    supervise(first.attempt(), 1, first.options);
    ::raise(SIGTERM);  // both come too late for the first
    request_stop(newest_claim(first.attempt())->supervisor, 1);
    ::_exit(int(supervise(second.attempt(), 1, second.options)));
  }
  CHECK(second.finish(supervisor).state == JobState::Succeeded);
  CHECK(read_file(first.outputs() / "gpus") == "3\n");
  CHECK(read_file(second.outputs() / "gpus") == "unset\n");
  std::istringstream children(read_file(second.outputs() / "children"));
  const std::vector<std::string> pids{std::istream_iterator<std::string>(children), {}};
  REQUIRE(pids.size() == 2);  // only its own program
  CHECK(pids[0] == pids[1]);
}

TEST_CASE("at the walltime a program with a new checkpoint is queued again", "[supervisor]") {
  const std::string script =
      "trap 'date +%N > $DLFLOW_CHECKPOINTS/n; exit 75' USR1; while :; do sleep 0.02; done";
  Job job(script);
  job.spec.checkpoint = CheckpointPolicy{};
  job.spec.resources.walltime = std::chrono::seconds(1);
  const JobEvent end = job.execute();
  CHECK(end.state == JobState::Queued);
  CHECK(end.reason == "walltime of 0:01 reached, goes on from its checkpoint");
  const JobEvent again = job.execute(2);
  CHECK(again.state == JobState::Queued);
}

TEST_CASE("a program that asks to be run again may say why, and what earlier passes said is theirs",
          "[supervisor]") {
  Job job(
      "[ $DLFLOW_PASS = 2 ] || echo 'error: rank 1 died' >&2; echo a page of mpirun >&2\n"
      "[ $DLFLOW_PASS = 3 ] || date +%N > $DLFLOW_CHECKPOINTS/n; exit 75");
  job.spec.checkpoint = CheckpointPolicy{};
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
  Job job(
      "trap 'exit 75' USR1; date +%N > $DLFLOW_CHECKPOINTS/n; kill -USR1 $PPID\n"
      "while :; do sleep 0.02; done");
  job.spec.checkpoint = CheckpointPolicy{};
  CHECK(job.execute().reason == "time limit of the cluster reached, goes on from its checkpoint");
}

TEST_CASE("a script waits for its program to save", "[supervisor]") {
  Job job(
      "sh -c 'trap \"sleep 0.1; date +%N > $DLFLOW_CHECKPOINTS/n; exit 75\" USR1; "
      ": > $DLFLOW_OUTPUTS/ready; while :; do sleep 0.02; done'\n"
      "echo not reached");
  job.spec.checkpoint = CheckpointPolicy{};
  const pid_t supervisor = job.begin();
  job.wait_for(job.outputs() / "ready");
  ::kill(supervisor, SIGUSR1);
  CHECK(job.finish(supervisor).state == JobState::Queued);
  CHECK(read_file(job.attempt() / "stdout").empty());
}

TEST_CASE("a pass that was told to go on finds what the one before left, another one finds nothing",
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
  SECTION("its node was given up, and may still write") {
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

TEST_CASE("at the walltime a program without a new checkpoint has timed out", "[supervisor]") {
  Job idle("trap 'exit 75' USR1; while :; do sleep 0.02; done");
  idle.spec.checkpoint = CheckpointPolicy{};
  idle.spec.resources.walltime = std::chrono::seconds(1);
  CHECK(idle.execute().reason == "walltime of 0:01 reached, no progress since the last checkpoint");

  Job slow("sleep 60");
  slow.spec.resources.walltime = std::chrono::seconds(1);
  CHECK(slow.execute().state == JobState::TimedOut);
}

TEST_CASE("a program that cannot save has all of its walltime", "[supervisor]") {
  Job job("sleep 0.9");
  job.spec.resources.walltime = std::chrono::seconds(1);
  CHECK(job.execute().state == JobState::Succeeded);
}

TEST_CASE("the program dies with its supervisor", "[supervisor]") {
  const Job job(
      "echo $$ > $DLFLOW_OUTPUTS/pid.tmp; mv $DLFLOW_OUTPUTS/pid.tmp $DLFLOW_OUTPUTS/pid; exec "
      "sleep 60");
  const pid_t supervisor = job.begin();
  job.wait_for(job.outputs() / "pid");
  const auto program = identify(std::stoi(read_file(job.outputs() / "pid")));
  REQUIRE(program.has_value());
  ::kill(supervisor, SIGKILL);
  ::waitpid(supervisor, nullptr, 0);
  for (int i = 0; i < 200 && liveness(*program) == Liveness::Alive; ++i) ::usleep(10'000);
  CHECK(liveness(*program) == Liveness::Dead);
  CHECK(liveness(newest_claim(job.attempt())->supervisor) == Liveness::Dead);
}

TEST_CASE("the environment is what the documentation says, whatever the caller's is",
          "[supervisor]") {
  ::setenv("PYTHONPATH", "/somewhere", 1);
  Job job("env > $DLFLOW_OUTPUTS/env");
  job.spec.params = {{"warm-up", 3}};
  job.spec.element = {{"lr", 0.1}};
  job.spec.environment = {{"EXTRA", "yes"}};
  job.execute();
  const std::string env = read_file(job.outputs() / "env");
  CHECK(env.find("PYTHONPATH") == std::string::npos);
  for (const char* line : {"DLFLOW_PARAM_WARM_UP=3\n", "DLFLOW_MATRIX_LR=0.1\n", "EXTRA=yes\n",
                           "DLFLOW_ATTEMPT=1\n", "DLFLOW_RANKS=1\n", "DLFLOW_JOB=step\n"}) {
    CAPTURE(line);
    CHECK(env.find(line) != std::string::npos);
  }
}

TEST_CASE("a command that dies of the request to save before its shell has it costs no trap",
          "[supervisor]") {
  // As SLURM does, which signals the processes of a step one after the other.
  Job job(
      "trap 'date +%N > $DLFLOW_CHECKPOINTS/n; exit 75' USR1\n"
      "( sleep 0.3; kill -USR1 $$ ) &\n"
      "sh -c 'kill -USR1 $$'; echo not reached");
  job.spec.checkpoint = CheckpointPolicy{};
  const JobEvent end = job.execute();
  CHECK(end.state == JobState::Queued);
  CHECK(end.exit == 75);
}

TEST_CASE("SIGUSR1 says that the walltime is near, whatever the own clock says", "[supervisor]") {
  Job job(
      "trap 'touch $DLFLOW_CHECKPOINTS/n; exit 75' USR1; : > $DLFLOW_OUTPUTS/begun; "
      "while :; do sleep 0.02; done");
  job.spec.checkpoint = CheckpointPolicy{};
  const pid_t supervisor = job.begin();
  job.wait_for(job.outputs() / "begun");
  ::kill(supervisor, SIGUSR1);
  CHECK(job.finish(supervisor).state == JobState::Queued);
}

TEST_CASE("what requeues itself leaves it to the scheduler what SIGTERM means", "[supervisor]") {
  Job job("touch $DLFLOW_OUTPUTS/begun; sleep 60");
  job.options.requeues = true;
  job.options.backend_id = "812_3";
  const pid_t supervisor = job.begin();
  job.wait_for(job.outputs() / "begun");
  ::kill(supervisor, SIGTERM);
  const JobEvent end = job.finish(supervisor);
  CHECK_FALSE(end.state.has_value());
  CHECK(end.reason == "stopped by SIGTERM");
  CHECK(end.backend_id == "812_3");
}

TEST_CASE("that SIGTERM came is on record before the program has ended", "[supervisor]") {
  Job job("trap '' TERM; touch $DLFLOW_OUTPUTS/begun; sleep 60");
  job.options.requeues = true;
  const pid_t supervisor = job.begin();
  job.wait_for(job.outputs() / "begun");
  ::kill(supervisor, SIGTERM);
  const auto events = [&job] { return attempt_events(job.spec.job_directory, job.spec.job, 1); };
  for (int i = 0; i < 500 && events().back().state; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(events().back().reason == "told to end by SIGTERM");
  ::kill(supervisor, SIGTERM);  // at once
  CHECK(job.finish(supervisor).exit == 128 + SIGKILL);
}

TEST_CASE("a program whose pass another one has taken over is ended, and leaves no word on record",
          "[supervisor]") {
  Job job(
      "trap 'echo told > $DLFLOW_OUTPUTS/end; exit 75' TERM; touch $DLFLOW_OUTPUTS/begun\n"
      "while :; do sleep 0.02; done");
  job.spec.checkpoint = CheckpointPolicy{};
  job.options.requeues = true;
  job.options.look_again = std::chrono::milliseconds(20);
  const pid_t supervisor = job.begin();
  job.wait_for(job.outputs() / "begun");
  SECTION("in this attempt") { CHECK(claim_pass(job.attempt(), 2, "813")); }
  SECTION("in the next") { make_directories(attempt_directory(job.spec.job_directory, 2)); }
  CHECK(wait_for(supervisor).code == int(Supervision::Unrecorded));
  CHECK(read_file(job.outputs() / "end") == "told\n");
  CHECK(attempt_events(job.spec.job_directory, job.spec.job, 1).back().state == JobState::Running);
}

TEST_CASE("what requeues itself tries again what `retry:` covers, and no oftener", "[supervisor]") {
  Job job("exit 3");
  job.options.requeues = true;
  job.spec.retry = {.attempts = 2, .on = {RetryCause::Failure}};
  const JobEvent first = job.execute();
  CHECK(first.state == JobState::Queued);
  CHECK(first.reason == "try 2 of 2 follows; the last one: exit 3");
  CHECK(first.failed_tries == 1);
  const JobEvent second = job.execute(2);
  CHECK(second.state == JobState::Failed);
  CHECK(second.reason == "exit 3");
}
