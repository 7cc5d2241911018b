#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/parse_json.h"
#include "engine/plan/run_directory.h"
#include "tests/support/catch.h"
#include "tests/support/test_run.h"

using namespace dlflow;
using namespace dlflow::test;
namespace fs = std::filesystem;

namespace {

constexpr const char* kDiamond = R"(
  fetch:  {run: ./fetch}
  train:  {run: ./train,  needs: [fetch]}
  plot:   {run: ./plot,   needs: [train]}
  report: {run: ./report, needs: [fetch]}
)";

}  // namespace

TEST_CASE("jobs run after their parents, and the run succeeds", "[scheduler]") {
  TestRun run(kDiamond);
  const RunResult result = run.start();
  CHECK(result.state == RunState::Succeeded);
  CHECK_FALSE(result.interrupted);
  CHECK(run.backend.submitted == Names{"fetch", "train", "report", "plot"});
  CHECK(run.states() == States{{"fetch", Succeeded},
                               {"train", Succeeded},
                               {"plot", Succeeded},
                               {"report", Succeeded}});
  CHECK(run.state() == RunState::Succeeded);
}

TEST_CASE("a run that cannot be recorded leaves no folder behind", "[scheduler]") {
  TestRun run("  a: {run: ./a}\n");
  Database(run.path() / "state" / "dlflow.db").script("DROP TABLE counts");
  CHECK_THROWS_AS(run.start(), Error);
  size_t runs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(run.path() / "runs")) {
    runs += entry.path().filename() != ".programs";
  }
  CHECK(runs == 0);
  CHECK(run.backend.submitted.empty());
}

TEST_CASE("the observer gets every change once, in order", "[scheduler]") {
  TestRun run("  a: {run: ./a}\n  b: {run: ./b, needs: [a]}\n");
  run.start();
  CHECK(run.observer.heard == Names{"a submitting", "a running", "a succeeded", "b submitting",
                                    "b running", "b succeeded", "run succeeded"});
  CHECK(run.observer.states == run.states());
}

TEST_CASE("with keep-going, a failed step blocks its dependents and nothing else", "[scheduler]") {
  TestRun run(kDiamond);
  run.backend.fail("train");
  CHECK(run.start({.keep_going = true}).state == RunState::Failed);
  CHECK(run.states() ==
        States{{"fetch", Succeeded}, {"train", Failed}, {"plot", Blocked}, {"report", Succeeded}});
}

TEST_CASE("running jobs finish after a failure, and nothing new starts", "[scheduler]") {
  TestRun run(R"(
  bad:   {run: ./bad}
  other: {run: ./other}
  after: {run: ./after, needs: [other]}
)");
  run.backend.fail("bad");
  CHECK(run.start().state == RunState::Failed);
  CHECK(run.states() == States{{"bad", Failed}, {"other", Succeeded}, {"after", Planned}});
}

TEST_CASE("elements of a matrix wait for their own counterparts only", "[scheduler]") {
  TestRun run(R"(
  a: {run: ./a, matrix: {n: [1, 2]}}
  b: {run: ./b, matrix: {n: [1, 2]}, needs: [a]}
  c: {run: ./c, needs: [b]}
)");
  run.backend.fail("a[n=1]");
  run.start({.keep_going = true});
  CHECK(run.states() == States{{"a[n=1]", Failed},
                               {"a[n=2]", Succeeded},
                               {"b[n=1]", Blocked},
                               {"b[n=2]", Succeeded},
                               {"c", Blocked}});
}

TEST_CASE("no more than max_parallel elements of a matrix run at a time, and other jobs pass",
          "[scheduler]") {
  TestRun run(R"(
  sweep: {run: ./sweep, matrix: {n: [1, 2, 3, 4], max_parallel: 2}}
  other: {run: ./other}
)");
  std::set<std::string> active;
  size_t most = 0;
  run.observer.on_event = [&](const JobEvent& event) {
    if (event.state == Running && event.job != "other") most = std::max(most, active.size() + 1);
    if (event.state == Running && event.job != "other") active.insert(event.job);
    if (event.state == Succeeded) active.erase(event.job);
  };
  CHECK(run.start().state == RunState::Succeeded);
  CHECK(run.backend.submitted ==
        Names{"sweep[n=1]", "sweep[n=2]", "other", "sweep[n=3]", "sweep[n=4]"});
  CHECK(most == 2);
}

TEST_CASE("packed elements are single jobs on this machine", "[scheduler][pack]") {
  TestRun run("  sweep: {run: ./sweep, matrix: {n: [1, 2, 3], pack: 3}}\n");
  run.backend.fail("sweep[n=2]");
  run.start();
  CHECK(run.backend.submitted == Names{"sweep[n=1]", "sweep[n=2]", "sweep[n=3]"});
  CHECK(run.states() ==
        States{{"sweep[n=1]", Succeeded}, {"sweep[n=2]", Failed}, {"sweep[n=3]", Succeeded}});
}

TEST_CASE("a retry is a new attempt and comes after a pause", "[scheduler]") {
  TestRun run("  flaky: {run: ./flaky, retry: {attempts: 3, on: [failure]}}\n");
  run.backend.fail("flaky");
  run.backend.fail("flaky");
  const Time before = run.clock.now();
  CHECK(run.start().state == RunState::Succeeded);
  CHECK(run.backend.submitted == Names{"flaky", "flaky#2", "flaky#3"});
  CHECK(run.clock.now() - before >= std::chrono::milliseconds(500 + 1000));
  CHECK(run.observer.ticks > 2);
  Names reasons;
  for (const JobEvent& event : run.store.events(run_name(run.directory), "flaky")) {
    if (event.state == Planned) reasons.push_back(event.reason);
  }
  CHECK(reasons ==
        Names{"try 2 of 3 follows; the previous one: ", "try 3 of 3 follows; the previous one: "});
}

TEST_CASE("retries end with the last attempt", "[scheduler]") {
  TestRun run("  flaky: {run: ./flaky, retry: {attempts: 2, on: [failure]}}\n");
  run.backend.ends["flaky"] = {Failed, Failed, Succeeded};
  CHECK(run.start().state == RunState::Failed);
  CHECK(run.backend.submitted == Names{"flaky", "flaky#2"});
}

TEST_CASE("only causes that retry names are tried again", "[scheduler]") {
  TestRun run("  step: {run: ./step, retry: {attempts: 3, on: [timeout]}}\n");
  run.backend.ends["step"] = {TimedOut, Failed};
  run.start();
  CHECK(run.backend.submitted == Names{"step", "step#2"});
  CHECK(run.states() == States{{"step", Failed}});
}

TEST_CASE("a requeue after a checkpoint is another pass of the same attempt", "[scheduler]") {
  TestRun run("  train: {run: ./train}\n  after: {run: ./after, needs: [train]}\n");
  run.backend.ends["train"] = {Queued, Queued, Succeeded};
  CHECK(run.start().state == RunState::Succeeded);
  CHECK(run.backend.submitted == Names{"train", "train#1.2", "train#1.3", "after"});
  CHECK(run.attempt("train") == 1);
}

TEST_CASE("a retry after several passes begins with its first one", "[scheduler]") {
  TestRun run("  train: {run: ./train, retry: {attempts: 2, on: [failure]}}\n");
  run.backend.ends["train"] = {Queued, Failed, Succeeded};
  CHECK(run.start().state == RunState::Succeeded);
  CHECK(run.backend.submitted == Names{"train", "train#1.2", "train#2"});
}

TEST_CASE("a skipped step skips users of its outputs, not steps that only wait", "[scheduler]") {
  TestRun run(R"(
  plot:  {run: ./plot, outputs: {picture: plot.png}}
  show:  {run: [show, "${{ steps.plot.outputs.picture }}"]}
  frame: {run: ./frame, needs: [show]}
)");
  run.backend.ends["plot"] = {Skipped};
  CHECK(run.start().state == RunState::Succeeded);
  CHECK(run.states() == States{{"plot", Skipped}, {"show", Skipped}, {"frame", Succeeded}});
  const fs::path attempt = attempt_directory(run.directory / "steps/frame", 1);
  const JobSpec frame = job_spec_from_json(read_json_file(attempt / "job.json"));
  REQUIRE(frame.parents.size() == 1);
  CHECK(frame.parents[0].skipped);  // its supervisor cannot see that, since there is no record
}

TEST_CASE("a step written before its skipped parent is skipped as well", "[scheduler]") {
  TestRun run(R"(
  show: {run: [show, "${{ steps.plot.outputs.picture }}"]}
  plot: {run: ./plot, outputs: {picture: plot.png}}
)");
  run.backend.ends["plot"] = {Skipped};
  CHECK(run.start().state == RunState::Succeeded);
  CHECK(run.states() == States{{"plot", Skipped}, {"show", Skipped}});
}

TEST_CASE("a step that uses one step's outputs runs although another parent was skipped",
          "[scheduler]") {
  TestRun run(R"(
  a:    {run: ./a, outputs: {o: o}}
  b:    {run: ./b, outputs: {o: o}}
  both: {run: [both, "${{ steps.a.outputs.o }}"], needs: [b]}
)");
  run.backend.ends["b"] = {Skipped};
  CHECK(run.start().state == RunState::Succeeded);
  CHECK(run.states() == States{{"a", Succeeded}, {"b", Skipped}, {"both", Succeeded}});
}

TEST_CASE("jobs run at once as far as there is room, and small ones overtake wide ones",
          "[scheduler]") {
  TestRun run(R"(
  a:     {run: ./a, resources: {cpus_per_rank: 2}}
  wide:  {run: ./wide, resources: {cpus_per_rank: 3}}
  small: {run: ./small}
)");
  run.backend.cores = 3;
  run.start();
  CHECK(run.backend.submitted == Names{"a", "small", "wide"});
}

TEST_CASE("the same work is reused, even after a step that had to run again", "[scheduler]") {
  const std::string rest = "  b: {run: ./b, needs: [a]}\n";
  TestRun run("  a: {run: ./a}\n" + rest);
  run.backend.outputs["a"] = {{"data", {{"value", "a.txt"}, {"sha256", "1234"}}}};
  run.start();

  run.start();
  CHECK(run.states() == States{{"a", Cached}, {"b", Cached}});

  run.rewrite("  a: {run: ./a --verbose}\n" + rest);  // runs, and leaves the same outputs
  run.start();
  CHECK(run.states() == States{{"a", Succeeded}, {"b", Cached}});

  run.rewrite("  a: {run: ./a --other}\n" + rest);
  run.backend.outputs["a"]["data"]["sha256"] = "5678";
  run.start();
  CHECK(run.states() == States{{"a", Succeeded}, {"b", Succeeded}});
}

TEST_CASE("an interruption asks running jobs to save and starts nothing more", "[scheduler]") {
  TestRun run(kDiamond);
  run.backend.on_submit = [](const std::string& job) {
    if (job == "train") ::kill(::getpid(), SIGINT);
  };
  const RunResult result = run.start();
  CHECK(result.interrupted);
  CHECK(result.state == RunState::Cancelled);
  CHECK(run.backend.stopped.front() == std::pair(std::string("train"), Stop::AndSave));
  CHECK(run.states()["train"] == JobState::Cancelled);
  CHECK(run.states()["plot"] == Planned);
  CHECK(run.state() == RunState::Cancelled);

  run.backend.on_submit = {};
  CHECK(run.resume().state == RunState::Succeeded);
  CHECK(run.attempt("train") == 2);
  CHECK(run.attempt("fetch") == 1);
}

TEST_CASE("a second interruption kills", "[scheduler]") {
  TestRun run("  train: {run: ./train}\n");
  run.backend.held = run.backend.stubborn = {"train"};
  run.backend.on_submit = [](const std::string&) {
    ::kill(::getpid(), SIGINT);
    ::kill(::getpid(), SIGTERM);
  };
  CHECK(run.start().state == RunState::Cancelled);
  CHECK(run.backend.stopped == std::vector<std::pair<std::string, Stop>>{{"train", Stop::AndSave},
                                                                         {"train", Stop::AtOnce}});
  CHECK(std::ranges::count(run.observer.heard, "stopping") == 1);
}

TEST_CASE("jobs without room are cancelled with the running ones", "[scheduler]") {
  TestRun run("  a: {run: ./a}\n  b: {run: ./b}\n  c: {run: ./c, needs: [b]}\n");
  run.backend.cores = 1;
  run.backend.on_submit = [](const std::string&) { ::kill(::getpid(), SIGINT); };
  CHECK(run.start().state == RunState::Cancelled);
  CHECK(run.states() ==
        States{{"a", JobState::Cancelled}, {"b", JobState::Cancelled}, {"c", Planned}});
}

TEST_CASE("a job that fails while the run is stopped has failed", "[scheduler]") {
  TestRun run("  a: {run: ./a}\n  b: {run: ./b, needs: [a]}\n");
  run.backend.stubborn = {"a"};
  run.backend.fail("a");
  run.backend.on_submit = [](const std::string&) { ::kill(::getpid(), SIGINT); };
  CHECK(run.start().state == RunState::Failed);
  CHECK(run.states() == States{{"a", Failed}, {"b", Blocked}});
}

TEST_CASE("an interruption between two jobs leaves a cancelled run", "[scheduler]") {
  TestRun run("  flaky: {run: ./flaky, retry: {attempts: 2, on: [failure]}}\n");
  run.backend.fail("flaky");
  run.observer.on_event = [](const JobEvent& event) {
    if (event.state == Planned) ::kill(::getpid(), SIGINT);
  };
  CHECK(run.start().state == RunState::Cancelled);
  CHECK(run.states() == States{{"flaky", JobState::Cancelled}});
  CHECK(run.backend.stopped.empty());
}

TEST_CASE("a run can be cancelled through its folder", "[scheduler]") {
  TestRun run("  train: {run: ./train}\n");
  run.backend.held = {"train"};
  run.backend.on_submit = [&](const std::string&) {
    write_file_atomic(run.directory / "cancel", "");
  };
  const RunResult result = run.start();
  CHECK(result.state == RunState::Cancelled);
  CHECK_FALSE(result.interrupted);
  CHECK_FALSE(std::filesystem::exists(run.directory / "cancel"));
}

TEST_CASE("the display advances at most five times a second", "[scheduler]") {
  std::string steps;
  for (int i = 0; i < 20; ++i) {
    steps += "  a" + std::to_string(i) + ": {run: ./a" + std::to_string(i) + "}\n";
  }
  TestRun run(steps);
  const Time begin = run.clock.now();
  run.backend.on_submit = [&](const std::string&) {
    run.clock.advance(std::chrono::milliseconds(10));
  };
  run.backend.cores = 1;
  run.start();
  const auto time = run.clock.now() - begin;
  CHECK(time >= std::chrono::milliseconds(200));
  CHECK(run.observer.ticks >= 1);
  CHECK(run.observer.ticks <= time / std::chrono::milliseconds(200));
}

TEST_CASE("a job is on record before it is submitted", "[scheduler]") {
  TestRun run("  train: {run: ./train}\n");
  std::vector<JobState> recorded;
  run.backend.on_submit = [&](const std::string&) {
    for (const JobEvent& event : EventTail(run.directory / "events.jsonl").read()) {
      recorded.push_back(event.state.value());
    }
  };
  run.start();
  CHECK(recorded == std::vector{Submitting});
}

TEST_CASE("the engine does not record again what a supervisor has recorded", "[scheduler]") {
  TestRun run("  a: {run: ./a}\n");
  run.start();
  std::vector<JobState> written;
  for (const JobEvent& event : EventTail(run.directory / "events.jsonl").read()) {
    written.push_back(event.state.value());
  }
  CHECK(written == std::vector{Submitting});
}

TEST_CASE("a run in which one job failed and another was cancelled has failed", "[scheduler]") {
  TestRun run("  a: {run: ./a}\n  b: {run: ./b}\n");
  run.backend.fail("a");
  run.backend.held = {"b"};
  run.observer.on_event = [](const JobEvent& event) {
    if (event.state == Failed) ::kill(::getpid(), SIGINT);
  };
  CHECK(run.start().state == RunState::Failed);
  CHECK(run.states() == States{{"a", Failed}, {"b", JobState::Cancelled}});
  CHECK(run.state() == RunState::Failed);
}
