#include <functional>

#include "base/file.h"
#include "base/parse_json.h"
#include "engine/run/again.h"
#include "engine/run/restore.h"
#include "tests/support/catch.h"
#include "tests/support/parsed.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_run.h"
#include "tests/unit/engine/plan/plan_of.h"

using namespace dlflow;
using namespace dlflow::test;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

constexpr const char* kThreeSteps = R"(
  a: {run: ./a}
  b: {run: ./b, needs: [a]}
  c: {run: ./c, needs: [b]}
)";

const States kAllDone = {{"a", Succeeded}, {"b", Succeeded}, {"c", Succeeded}};

/// Ends the engine soon after `work` has submitted a job.
void killed_after_submission(TestRun& run, const std::function<void()>& work) {
  run.backend.on_submit = [&](const std::string&) { run.backend.waits_until_killed = 1; };
  CHECK_THROWS_AS(work(), Killed);
  run.backend.on_submit = {};
  run.backend.waits_until_killed = -1;
}

}  // namespace

TEST_CASE("a killed engine's run is finished with every job submitted once", "[resume]") {
  const int waits = GENERATE(range(0, 6));
  TestRun run(kThreeSteps);
  run.start_and_kill(waits);
  CHECK(run.resume().state == RunState::Succeeded);
  CHECK(run.states() == kAllDone);
  CHECK(run.backend.submitted == Names{"a", "b", "c"});
}

TEST_CASE("a resubmitted job has the given resources, and otherwise its own", "[resume]") {
  TestRun run("  a: {run: ./a}\n  b: {run: ./b, needs: [a]}\n");
  run.backend.fail("a");
  CHECK(run.start().state == RunState::Failed);
  CHECK(run.submit_again({.resources = {{"cpus_per_rank", 3}}}).state == RunState::Succeeded);
  const auto cpus = [&run](const JobName& job, int attempt) {
    const fs::path folder = attempt_directory(job_directory(run.directory, job), attempt);
    return job_spec_from_json(parse_json(read_file(folder / "job.json"))).resources.cpus_per_rank;
  };
  CHECK(cpus("a", 1) == 1);
  CHECK(cpus("a", 2) == 3);
  CHECK(cpus("b", 1) == 1);
}

TEST_CASE("a run has succeeded once a job presumed lost has", "[resume]") {
  RunFolder run("  a: {run: ./a}\n");
  const Plan plan = run.plan();
  Jobs jobs(plan, {{.state = Lost, .attempt = 1}});
  CHECK(state_of_run(jobs) == RunState::Failed);
  jobs.rewind(0);
  for (const JobState state : {Running, Succeeded}) {
    JobEvent event;
    event.job = "a";
    event.attempt = 1;
    event.state = state;
    CHECK(jobs.update(0, event));
  }
  CHECK(state_of_run(jobs) == RunState::Succeeded);
}

TEST_CASE("the preemption of a lost job is kept, since retries may depend on it", "[resume]") {
  RunFolder run("  a: {run: ./a}\n");
  const Plan plan = run.plan();
  Jobs jobs(plan, {{.state = Running, .attempt = 1}});
  JobEvent lost;
  lost.attempt = 1;
  lost.state = Lost;
  lost.preempted = GENERATE(true, false);
  REQUIRE(jobs.update(0, lost));
  CHECK(ending_of(jobs[0]).preempted == lost.preempted);
}

TEST_CASE("a try during which the engine was killed counts as one", "[resume]") {
  TestRun run("  a: {run: ./a, retry: {attempts: 2, on: [failure]}}\n");
  for (int i = 0; i < 4; ++i) run.backend.fail("a");
  run.start_and_kill(0);
  CHECK(run.resume().state == RunState::Failed);
  CHECK(run.backend.submitted == Names{"a", "a#2"});
}

TEST_CASE("a run that is read again has the reused result of each job, the first included",
          "[resume]") {
  Plan plan;
  plan.run = "r";
  RunStatus status;
  for (const char* name : {"first", "second"}) {
    plan.jobs.push_back({.step = 0, .name = name, .place = {}});
    JobRow row;
    row.job = name;
    status.jobs.push_back(row);
  }
  SECTION("it was decided during the run") {
    for (JobRow& row : status.jobs) row.state = Cached;
    take_reused(plan, status);
    CHECK(plan.reused.at(0).job == "first");
    CHECK(plan.reused.at(1).job == "second");
  }
  SECTION("the job runs because its reused result was gone") {
    for (const uint32_t job : {0U, 1U}) {
      plan.jobs[job].action = Action::Reuse;
      plan.reused[job] = {};
    }
    status.jobs[0].attempt = 1;
    status.jobs[1].state = Cached;
    take_reused(plan, status);
    CHECK(plan.jobs[0].action == Action::Run);
    CHECK_FALSE(plan.reused.contains(0));
    CHECK(plan.jobs[1].action == Action::Reuse);
    CHECK(plan.reused.contains(1));
  }
}

TEST_CASE("engines that are killed one after the other finish a run in the end", "[resume]") {
  TestRun run(kThreeSteps);
  run.start_and_kill(1);
  for (int kills = 0; kills < 3; ++kills) {
    run.backend.waits_until_killed = 1;
    try {
      run.resume();
    } catch (const Killed&) {
    }
  }
  run.backend.waits_until_killed = -1;
  CHECK(run.resume().state == RunState::Succeeded);
  CHECK(run.backend.submitted == Names{"a", "b", "c"});
}

TEST_CASE("a recorded job that was not handed over is submitted as the same attempt", "[resume]") {
  TestRun run(kThreeSteps);
  run.backend.on_submit = [](const JobName& job) {
    if (job == "b") throw Killed();
  };
  CHECK_THROWS_AS(run.start(), Killed);
  run.backend.on_submit = {};
  CHECK(run.resume().state == RunState::Succeeded);
  CHECK(run.attempt("b") == 1);
  CHECK(run.states() == kAllDone);
}

TEST_CASE("a vanished job is lost, and tried again by the resume", "[resume]") {
  TestRun run(kThreeSteps);
  run.backend.held = {"b"};
  run.start_and_kill(6);
  CHECK(run.states()["b"] == Running);
  run.backend.held = {};
  run.backend.recovery["b"] = Recovery::Vanished;
  CHECK(run.resume().state == RunState::Succeeded);
  CHECK(run.backend.submitted == Names{"a", "b", "b#2", "c"});
  const auto events = run.store.events(run_name(run.directory), "b");
  CHECK(std::any_of(events.begin(), events.end(),
                    [](const JobEvent& event) { return event.state == Lost; }));
  // Its record differs from that of the vanished attempt.
  CHECK(run.backend.events_read["b#2"] == 0);
}

TEST_CASE("the next pass is submitted by the next engine", "[resume]") {
  TestRun run("  train: {run: ./train}\n");
  run.backend.ends["train"] = {Queued, Succeeded};
  run.backend.on_submit = [submissions = 0](const std::string&) mutable {
    if (++submissions == 2) throw Killed();
  };
  CHECK_THROWS_AS(run.start(), Killed);
  run.backend.on_submit = {};
  CHECK(run.resume().state == RunState::Succeeded);
  CHECK(run.backend.submitted == Names{"train", "train#1.2", "train#1.2"});
  CHECK(run.attempt("train") == 1);
}

TEST_CASE("the next engine has the reused results", "[resume]") {
  TestRun run("  a: {run: ./a}\n  b: {run: ./b, needs: [a]}\n");
  run.start();
  run.rewrite("  a: {run: ./a}\n  b: {run: ./b, needs: [a]}\n  c: {run: ./c, needs: [b]}\n");
  run.start_and_kill(0);
  CHECK(run.resume().state == RunState::Succeeded);
  CHECK(run.states() == States{{"a", Cached}, {"b", Cached}, {"c", Succeeded}});
  CHECK(published_result(run.directory / "steps/c").has_value());
}

TEST_CASE("a job whose reused result was removed runs again if it is needed", "[resume]") {
  TestRun run("  a: {run: ./a}\n  b: {run: ./b, needs: [a]}\n");
  run.start();
  const fs::path first = run.directory;
  run.rewrite("  a: {run: ./a}\n  b: {run: ./b, needs: [a]}\n  c: {run: ./c, needs: [b]}\n");
  run.backend.fail("c");
  run.start();
  CHECK(run.states() == States{{"a", Cached}, {"b", Cached}, {"c", Failed}});
  run.backend.submitted.clear();
  SECTION("all of it is gone") {
    fs::remove_all(first);
    CHECK(run.resubmit().state == RunState::Succeeded);
    CHECK(run.backend.submitted == Names{"a", "b", "c#2"});
    CHECK(run.states() == kAllDone);
  }
  SECTION("an unneeded result may be gone") {
    fs::remove_all(first / "steps/a");
    CHECK(run.resubmit().state == RunState::Succeeded);
    CHECK(run.backend.submitted == Names{"c#2"});
    CHECK(run.states() == States{{"a", Cached}, {"b", Cached}, {"c", Succeeded}});
  }
  SECTION("the engine after a kill finds that it must run") {
    fs::remove_all(first);
    run.backend.waits_until_killed = 0;
    CHECK_THROWS_AS(run.resubmit(), Killed);
    run.backend.waits_until_killed = -1;
    CHECK(run.resume().state == RunState::Succeeded);
    CHECK(run.states() == kAllDone);
  }
}

TEST_CASE("a lost result of the run itself is made again if it is needed", "[resume]") {
  TestRun run(kThreeSteps);
  run.backend.fail("c");
  run.start();
  SECTION("its folder") { fs::remove_all(run.directory / "steps/b"); }
  SECTION("its outputs, as in a purge of old files") {
    fs::remove_all(run.directory / "steps/b/attempt-1/pass-1/outputs");
  }
  SECTION("the link to its outputs") { fs::remove(run.directory / "steps/b/outputs"); }
  CHECK(run.resubmit().state == RunState::Succeeded);
  CHECK(run.backend.submitted == Names{"a", "b", "c", "b#2", "c#2"});
  CHECK(run.states() == kAllDone);
}

TEST_CASE("a lost result that is no longer needed stays lost", "[resume]") {
  TestRun run(kThreeSteps);
  run.backend.fail("c");
  run.start();
  fs::remove_all(run.directory / "steps/a");
  CHECK(run.resubmit().state == RunState::Succeeded);
  CHECK(run.backend.submitted == Names{"a", "b", "c", "c#2"});
}

TEST_CASE("a job that runs again because of a lost or remade result has all its tries",
          "[resume]") {
  TestRun run(R"(
  a: {run: ./a, allow_failure: true}
  b: {run: ./b, needs: [a], retry: {attempts: 2, on: [failure]}}
  c: {run: ./c, needs: [b]}
)");
  PlanAgain again{.failed = true};
  SECTION("its own result was lost") {
    run.backend.fail("c");
    run.start();
    fs::remove_all(run.directory / "steps/b");
  }
  SECTION("its parent runs again") {
    run.backend.fail("a");
    run.start();
    again.names = {"a"};
  }
  REQUIRE(run.attempt("b") == 1);
  run.backend.ends["b"] = {Failed, Succeeded};
  CHECK(run.submit_again(again).state == RunState::Succeeded);
  CHECK(run.attempt("b") == 3);
}

TEST_CASE("resume leaves failed jobs, and resubmit runs them and their dependents", "[resume]") {
  TestRun run(kThreeSteps);
  run.backend.fail("b");
  run.start();
  CHECK(run.states() == States{{"a", Succeeded}, {"b", Failed}, {"c", Blocked}});

  CHECK(run.resume().state == RunState::Failed);
  CHECK(run.backend.submitted == Names{"a", "b"});

  CHECK(run.resubmit().state == RunState::Succeeded);
  CHECK(run.backend.submitted == Names{"a", "b", "b#2", "c"});
  CHECK(run.states() == kAllDone);
}

TEST_CASE("a retry that an engine owed is made by the next one, also for lack of memory",
          "[resume]") {
  const bool lacks_memory = GENERATE(false, true);
  TestRun run(std::string("  flaky: {run: ./flaky, retry: {attempts: 2, on: [") +
              (lacks_memory ? "out-of-memory" : "failure") + "]}}\n");
  run.backend.fail("flaky");
  if (lacks_memory) run.backend.exits["flaky"] = 137;
  killed_after_submission(run, [&run] { run.start(); });
  if (lacks_memory) run.backend.wait(0ms, -1);  // it ends without an engine
  CHECK(run.resume().state == RunState::Succeeded);
  CHECK(run.attempt("flaky") == 2);
}

TEST_CASE("tries before a resubmit are not counted, also by a later engine", "[resume]") {
  TestRun run("  flaky: {run: ./flaky, retry: {attempts: 2, on: [failure]}}\n");
  run.backend.ends["flaky"] = {Failed, Failed, Failed};
  CHECK(run.start().state == RunState::Failed);
  killed_after_submission(run, [&run] { run.resubmit(); });  // in the first of two new tries
  CHECK(run.resume().state == RunState::Succeeded);
  CHECK(run.attempt("flaky") == 4);
}

TEST_CASE("each attempt counts as a try, and so does each failed pass", "[resume]") {
  const auto event = [](int attempt, JobState state, int failed_tries = 0) {
    JobEvent result;
    result.attempt = attempt;
    result.state = state;
    result.failed_tries = failed_tries;
    return result;
  };
  std::vector<JobEvent> events = {event(1, Submitting), event(1, Running)};
  CHECK(count_tries(events) == 1);
  events.push_back(event(1, Queued, 1));  // SLURM: the next try is the same attempt
  events.push_back(event(1, Failed, 1));
  CHECK(count_tries(events) == 2);
  events.push_back(event(1, Planned, 2));  // by a retry
  events.push_back(event(2, Submitting));
  CHECK(count_tries(events) == 3);
  events.push_back(event(2, Planned));  // by a user
  events.push_back(event(3, Submitting));
  CHECK(count_tries(events) == 1);
  events.push_back(event(2, Failed, 3));  // a late record
  CHECK(count_tries(events) == 1);
}

TEST_CASE("resubmitting can be limited to some steps", "[resume]") {
  TestRun run(R"(
  a: {run: ./a}
  b: {run: ./b}
  c: {run: ./c, needs: [b]}
)");
  run.backend.fail("a");
  run.backend.fail("b");
  run.start();
  CHECK(run.resubmit({"b"}).state == RunState::Failed);
  CHECK(run.states() == States{{"a", Failed}, {"b", Succeeded}, {"c", Succeeded}});
}

TEST_CASE("a job that reached its time limit is run by a resubmit, not by a resume", "[resume]") {
  TestRun run(kThreeSteps);
  run.backend.ends["b"] = {TimedOut};
  CHECK(run.start().state == RunState::Failed);
  CHECK(run.resume().state == RunState::Failed);
  CHECK(run.states() == States{{"a", Succeeded}, {"b", TimedOut}, {"c", Blocked}});
  CHECK(run.backend.submitted == Names{"a", "b"});
  CHECK(run.resubmit({"b"}).state == RunState::Succeeded);
}

TEST_CASE("a resubmit of a missing step or one that did not fail is reported", "[resume]") {
  TestRun run(kThreeSteps);
  run.backend.fail("b");
  run.start();
  CHECK_THROWS_WITH(run.resubmit({"bb"}), Catch::Contains("did you mean 'b'?"));
  CHECK_THROWS_WITH(run.resubmit({"a"}), Catch::Contains("no job of 'a' failed"));
}

TEST_CASE("a resubmitted job may ask for other resources, and nothing else changes", "[resume]") {
  TestRun run(R"(
  a: {run: ./a, resources: {walltime: 20m}}
  b: {run: ./b, needs: [a], resources: {walltime: 20m}}
  c: {run: ./c, needs: [b], resources: {walltime: 20m}}
)");
  run.backend.ends["b"] = {Failed, Failed};
  run.start();
  CHECK(run.submit_again({.resources = {{"walltime", "40m"}}}).state == RunState::Failed);
  CHECK(run.resubmit().state == RunState::Succeeded);
  CHECK(run.backend.submitted == Names{"a", "b", "b#2", "b#3", "c"});
  std::map<std::string, std::chrono::seconds> asked;
  for (const PlannedJob& job : load_run(run.directory).jobs) {
    asked[job.name] = job.resources->walltime;
  }
  CHECK(asked ==
        std::map<std::string, std::chrono::seconds>{{"a", 20min}, {"b", 40min}, {"c", 20min}});
  const Json spec = Json::parse(read_file(run.directory / "steps/b/attempt-3/job.json"));
  CHECK(spec.at("resources").at("walltime_s") == 2400);
}

TEST_CASE("new resources for a job that cannot have them change nothing", "[resume]") {
  TestRun run("  a: {run: ./a}\n  b: {run: ./b}\n");
  run.backend.fail("b");
  run.start();
  CHECK_THROWS_WITH(run.submit_again({.names = {"a"}, .resources = {{"ranks", 4}}}),
                    Catch::Contains("no job of 'a' failed"));
  CHECK(run.states() == States{{"a", Succeeded}, {"b", Failed}});
  CHECK_FALSE(fs::exists(run.directory / "changes.jsonl"));
  CHECK(run.resubmit().state == RunState::Succeeded);
  CHECK_THROWS_WITH(run.submit_again({.resources = {{"memory", "1GiB"}}}),
                    Catch::Contains("no job of ") && Catch::Contains(" failed"));
}

TEST_CASE("a step goes on from its checkpoints unless it begins from scratch", "[resume]") {
  TestRun run("  train: {run: ./train, checkpoint: {}}\n  eval: {run: ./eval, needs: [train]}\n");
  const auto checkpoint = [&run] { return run.directory / "steps/train/checkpoints/step-1"; };
  run.backend.ends["train"] = {TimedOut, Failed};
  run.start();
  make_directories(checkpoint());
  run.resubmit();
  CHECK(fs::exists(checkpoint()));
  CHECK(run.submit_again({.from_scratch = true}).state == RunState::Succeeded);
  CHECK_FALSE(fs::exists(checkpoint()));
  CHECK(fs::exists(run.directory / "steps/train/attempt-2/checkpoints/step-1"));
}

TEST_CASE("a run whose engine was killed can be cancelled and continued", "[resume]") {
  TestRun run(kThreeSteps);
  run.backend.held = {"b"};
  run.start_and_kill(6);
  run.backend.held = {};
  CHECK(run.cancel());
  CHECK(run.states() == States{{"a", Succeeded}, {"b", JobState::Cancelled}, {"c", Planned}});
  CHECK(run.state() == RunState::Cancelled);
  CHECK(run.resume().state == RunState::Succeeded);
  CHECK(run.backend.submitted == Names{"a", "b", "b#2", "c"});
}

TEST_CASE("jobs that a killed engine had no room for are cancelled with the rest", "[resume]") {
  TestRun run("  a: {run: ./a}\n  b: {run: ./b}\n  c: {run: ./c, needs: [b]}\n");
  run.backend.cores = 1;
  run.backend.held = {"a"};
  run.start_and_kill(1);
  CHECK(run.cancel());
  CHECK(run.states() ==
        States{{"a", JobState::Cancelled}, {"b", JobState::Cancelled}, {"c", Planned}});
}

TEST_CASE("a parent that was reused after the run began lies in the run that made it", "[resume]") {
  const std::string rest = "  b: {run: ./b, needs: [a]}\n";
  TestRun run("  a: {run: ./a}\n" + rest);
  run.backend.outputs["a"] = {{"data", {{"value", "a.txt"}, {"sha256", "1234"}}}};
  run.start();
  const fs::path first = run.directory;
  run.rewrite("  a: {run: ./a --verbose}\n" + rest + "  c: {run: ./c, needs: [b]}\n");
  run.backend.fail("c");
  run.start();
  REQUIRE(run.states() == States{{"a", Succeeded}, {"b", Cached}, {"c", Failed}});
  CHECK(run.resubmit().state == RunState::Succeeded);
  CHECK(run.states()["b"] == Cached);
  for (const char* attempt : {"attempt-1", "attempt-2"}) {
    const fs::path file = run.directory / "steps/c" / attempt / "job.json";
    CHECK(job_spec_from_json(Json::parse(read_file(file))).parents.at(0).directory ==
          first / "steps/b");
  }
}

TEST_CASE("cancelling a run that has ended changes nothing", "[resume]") {
  TestRun run(kThreeSteps);
  run.start();
  write_file_atomic(run.directory / "cancel", "");  // for an engine that ended before it noticed
  CHECK(run.cancel());
  CHECK_FALSE(fs::exists(run.directory / "cancel"));
  CHECK(run.state() == RunState::Succeeded);
}

TEST_CASE("a reused result that is gone is looked up anew, and so are its dependents' results",
          "[resume]") {
  const TempDir results;
  struct Known : KnownResults {
    explicit Known(fs::path results) : folder(std::move(results)) {}
    std::optional<KnownResult> find(const Fingerprint&, std::span<const std::string>) override {
      return KnownResult{.run = "old", .job = "", .directory = folder / std::to_string(++found)};
    }
    fs::path folder;
    int found = 0;
  } known(results.path());
  Plan plan = plan_of(parsed("name: w\nsteps:\n  a: {run: ./a, outputs: {o: o}}\n"
                             "  b: {run: ./b, needs: [a], outputs: {o: o}}\n"
                             "  c: {run: ./c, outputs: {o: o}}\n"),
                      {}, &known);
  REQUIRE(plan.reused.size() == 3);
  for (const JobName job : {"b", "c"}) {
    fs::create_directories(plan.reused.at(*find_job(plan, job)).directory / "outputs");
  }
  forget_removed(plan, Jobs(plan, std::vector<JobProgress>(3)));
  CHECK(plan.jobs[*find_job(plan, "a")].action == Action::DecideLater);
  CHECK(plan.jobs[*find_job(plan, "b")].action == Action::DecideLater);
  CHECK(plan.jobs[*find_job(plan, "c")].action == Action::Reuse);
}
