#include "engine/store/store.h"

#include <filesystem>

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/variable.h"
#include "tests/unit/engine/store/store_fixture.h"

using namespace dlflow;
using namespace dlflow::test;

namespace fs = std::filesystem;

namespace {

std::map<std::string, JobState> states(const RunStatus& status) {
  std::map<std::string, JobState> result;
  for (const JobRow& job : status.jobs) result[job.job] = job.state;
  return result;
}

using States = std::map<std::string, JobState>;

}  // namespace

TEST_CASE("a new run has only planned jobs", "[store]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kMnist);
  const RunStatus status = fixture.store.status(plan.run);
  CHECK(status.workflow == "mnist");
  CHECK(status.profile == "local");
  CHECK(status.state == RunState::Running);
  CHECK(status.started == at(0));
  CHECK(status.directory == plan.directory);
  CHECK(states(status) ==
        States{{"data", Planned}, {"train[lr=0.1]", Planned}, {"train[lr=0.5]", Planned}});
  CHECK(status.jobs[1].step == "train");
  CHECK(status.jobs[1].element == "lr=0.1");
  CHECK(status.jobs[1].directory == job_directory(plan, 1));
  fixture.store.create_run(plan);
  CHECK(fixture.store.runs().size() == 1);
}

TEST_CASE("events change states of jobs and stay readable", "[store]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kMnist);
  JobEvent failed = event("train[lr=0.5]", 1, Failed, 9, "exit 3: loss is NaN");
  failed.exit = 3;
  failed.node = "n1";
  const std::vector<JobEvent> events = {
      event("data", 1, Submitting, 1),  event("train[lr=0.5]", 1, Submitting, 2),
      event("data", 1, Running, 3),     event("train[lr=0.5]", 1, Running, 4),
      succeeded("data", "f1", "/d", 5), failed};
  fixture.store.record(plan.run, events);

  const RunStatus status = fixture.store.status(plan.run);
  CHECK(states(status) ==
        States{{"data", Succeeded}, {"train[lr=0.1]", Planned}, {"train[lr=0.5]", Failed}});
  CHECK(status.jobs[0].outputs == Json{{"path", "/d"}});
  CHECK(status.jobs[0].metrics == Json{{"accuracy", 0.9}});
  CHECK(status.jobs[0].started == at(3));
  CHECK(status.jobs[0].ended == at(5));
  CHECK(status.jobs[2].exit == 3);
  CHECK(status.jobs[2].node == "n1");
  CHECK(status.jobs[2].reason == "exit 3: loss is NaN");
  CHECK(fixture.store.events(plan.run, "train[lr=0.5]") ==
        std::vector<JobEvent>{events[1], events[3], events[5]});
}

TEST_CASE("an event that is recorded twice counts once", "[store]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kMnist);
  run_to_success(fixture.store, plan, "data");
  run_to_success(fixture.store, plan, "data");
  CHECK(fixture.store.events(plan.run, "data").size() == 4);
  CHECK(fixture.store.runs()[0].jobs == std::map<JobState, size_t>{{Planned, 2}, {Succeeded, 1}});
}

TEST_CASE("a job that returns to a state within a millisecond is in that state", "[store]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kMnist);
  const std::vector events = {event("data", 1, Submitting), event("data", 1, Queued),
                              event("data", 1, Running),    event("data", 1, Queued),
                              event("data", 1, Running),    event("data", 1, Queued)};
  fixture.store.record(plan.run, events);
  fixture.store.record(plan.run, events);                     // two readers of one file
  fixture.store.record(plan.run, std::span(events).last(2));  // a late reader
  CHECK(fixture.store.events(plan.run, "data") == events);
  CHECK(fixture.store.runs()[0].jobs == std::map<JobState, size_t>{{Planned, 2}, {Queued, 1}});
}

TEST_CASE("events are recorded all together or not at all", "[store]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kMnist);
  CHECK_THROWS_WITH(fixture.store.record(plan.run, std::vector{event("data", 1, Submitting),
                                                               event("nobody", 1, Submitting)}),
                    Catch::Contains("no job 'nobody'"));
  CHECK(fixture.store.events(plan.run, "data").empty());
  fixture.store.record(plan.run, {});
}

TEST_CASE("the time before a repair is idle, and jobs that ran again are known", "[store]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kMnist);
  CHECK_FALSE(fixture.store.last_event(plan.run).has_value());
  run_to_success(fixture.store, plan, "data");  // until 4
  const JobName job = "train[lr=0.1]";
  fixture.store.record(plan.run, std::vector{event(job, 1, Running, 4), event(job, 1, Failed, 9),
                                             event(job, 1, Planned, 60), event(job, 2, Running, 60),
                                             event(job, 2, Succeeded, 70)});
  CHECK(fixture.store.status(plan.run).idle == std::chrono::seconds(51));
  CHECK(fixture.store.repeated_jobs(plan.run) == std::vector<JobName>{job});
  CHECK(fixture.store.last_event(plan.run) == at(70));
}

TEST_CASE("runs are listed with the newest first", "[store]") {
  StoreFixture fixture;
  const Plan old = fixture.stored_run(kMnist, at(0));
  const Plan young = fixture.stored_run(kMnist, at(100));
  fixture.store.set_run_state(old.run, RunState::Failed, at(50));
  const auto runs = fixture.store.runs();
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].run == young.run);
  CHECK(runs[0].jobs == std::map<JobState, size_t>{{Planned, 3}});
  CHECK(runs[1].state == RunState::Failed);
  CHECK(runs[1].ended == at(50));
  fixture.store.set_run_state(old.run, RunState::Running, at(60));
  CHECK_FALSE(fixture.store.runs()[1].ended.has_value());
}

TEST_CASE("the state of a run without an engine follows from its jobs", "[store]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kMnist);
  const auto settled = [&] {
    fixture.store.settle_run_state(plan.run);
    return fixture.store.status(plan.run).state;
  };
  CHECK(settled() == RunState::Interrupted);
  run_to_success(fixture.store, plan, "data");
  CHECK(settled() == RunState::Interrupted);
  fixture.store.record(plan.run, std::vector{event("train[lr=0.1]", 1, Submitting, 5),
                                             event("train[lr=0.1]", 1, Cancelled, 6)});
  CHECK(settled() == RunState::Cancelled);
  fixture.store.record(plan.run, std::vector{event("train[lr=0.5]", 1, Submitting, 5),
                                             event("train[lr=0.5]", 1, Queued, 6)});
  CHECK(settled() == RunState::Running);
  fixture.store.record(plan.run, std::vector{event("train[lr=0.5]", 1, Failed, 7)});
  CHECK(settled() == RunState::Failed);
  CHECK(fixture.store.status(plan.run).ended == at(7));
  for (const JobName job : {"train[lr=0.1]", "train[lr=0.5]"}) {
    fixture.store.record(plan.run,
                         std::vector{event(job, 2, Submitting, 8), event(job, 2, Running, 9),
                                     event(job, 2, Succeeded, 10)});
  }
  CHECK(settled() == RunState::Succeeded);
}

TEST_CASE("a run is found by its name, its workflow or its digits", "[store]") {
  StoreFixture fixture;
  CHECK_THROWS_WITH(fixture.store.resolve("mnist"), Catch::Contains("there are no runs yet"));
  const Plan one = fixture.stored_run(kMnist);
  CHECK(fixture.store.resolve(one.run) == one.run);
  CHECK(fixture.store.resolve("mnist") == one.run);
  const std::string digits = one.run.substr(one.run.size() - 8);
  CHECK(fixture.store.resolve(digits) == one.run);
  CHECK(fixture.store.resolve(digits.substr(0, 4)) == one.run);
  CHECK_THROWS_AS(fixture.store.resolve(digits.substr(0, 3)), Error);
  CHECK(fixture.store.resolve(one.run.substr(0, one.run.size() - 6)) == one.run);
  CHECK_THROWS_AS(fixture.store.resolve("mnist-"), Error);
  CHECK(fixture.store.resolve(one.directory.string()) == one.run);
  CHECK(fixture.store.resolve((one.directory / "../" / one.run / "").string()) == one.run);
  CHECK_THROWS_WITH(fixture.store.resolve(one.run + "0"),
                    Catch::Contains("did you mean '" + one.run + "'?"));
  const Plan two = fixture.stored_run(kMnist);
  CHECK_THROWS_WITH(fixture.store.resolve("mnist"), Catch::Contains("2 runs") &&
                                                        Catch::Contains(one.run) &&
                                                        Catch::Contains(two.run));
}

TEST_CASE("an unregistered run of a killed dlflow is found by name and by folder", "[store]") {
  StoreFixture fixture;
  const Plan known = fixture.stored_run(kMnist, at(1));
  const Plan orphan = fixture.new_run(kMnist, at(2));
  REQUIRE_FALSE(fixture.store.has_run(orphan.run));
  SECTION("beside another run") { CHECK(fixture.store.resolve(orphan.run) == orphan.run); }
  SECTION("by its folder") {
    CHECK(fixture.store.resolve(orphan.directory.string()) == orphan.run);
  }
  CHECK(fixture.store.status(orphan.run).jobs.size() == 3);
  CHECK(fixture.store.create_run(orphan) == orphan.run);  // its dlflow was alive after all
  CHECK(fixture.store.runs().size() == 2);
  CHECK_THROWS_AS(fixture.store.resolve("../" + known.run), Error);
  CHECK_THROWS_AS(fixture.store.resolve(".."), Error);
}

TEST_CASE("some of many runs that match a word are named", "[store]") {
  StoreFixture fixture;
  const auto refusal = [&] { return test::error_of([&] { fixture.store.resolve("mnist"); }); };
  for (int i = 0; i < 8; ++i) fixture.stored_run(kMnist);
  CHECK_THAT(refusal(), Catch::Contains("8 runs, the newest first:\n  mnist-"));
  CHECK_THAT(refusal(), !Catch::Contains("more"));
  const std::string newest = fixture.stored_run(kMnist).run;
  CHECK_THAT(refusal(), Catch::Contains("9 runs, the newest first:\n  " + newest + "  running  "));
  CHECK_THAT(refusal(), Catch::EndsWith("  and 1 more, which `dlflow status --quick` lists\n"
                                        "Type the name of one of them: " +
                                        newest));
}

TEST_CASE("two runs with the same drawn name are both kept, each with its own record", "[store]") {
  StoreFixture fixture;
  const Plan one = fixture.stored_run(kMnist);
  const fs::path elsewhere = fixture.folder.path() / "elsewhere" / one.run;
  fs::create_directories(elsewhere.parent_path());
  fs::copy(one.directory, elsewhere, fs::copy_options::recursive);
  const Plan two = load_run(elsewhere);
  REQUIRE(two.run == one.run);

  CHECK(fixture.store.create_run(two) == one.run + ".2");
  run_to_success(fixture.store, two, "data");
  const auto state = [&](const Plan& plan) {
    return fixture.store.status(plan.directory.string()).jobs[0].state;
  };
  CHECK(state(one) == Planned);
  CHECK(state(two) == Succeeded);
  CHECK(fixture.store.status(one.run).directory == one.directory.string());
  CHECK(fixture.store.directory(one.run + ".2") == elsewhere);

  CHECK(fixture.store.rebuild_run(elsewhere) == one.run + ".2");
  CHECK(fixture.store.rebuild_run(one.directory / "") == one.run);
  CHECK(fixture.store.runs().size() == 2);
}

TEST_CASE("a run whose folder was moved is the same run", "[store]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kMnist);
  const fs::path moved = fixture.folder.path() / plan.run;
  fs::rename(plan.directory, moved);
  CHECK(fixture.store.rebuild_run(moved) == plan.run);
  CHECK(fixture.store.runs().size() == 1);
  CHECK(fixture.store.directory(plan.run) == moved);
}

TEST_CASE("an unknown run is reported with advice", "[store]") {
  StoreFixture fixture;
  CHECK_THROWS_WITH(fixture.store.status("x-0000"), Catch::Contains("dlflow status --quick"));
  CHECK_THROWS_AS(fixture.store.directory("x-0000"), Error);
  CHECK_FALSE(fixture.store.has_run("x-0000"));
}

TEST_CASE("a forgotten run leaves nothing in the store", "[store]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kMnist);
  run_to_success(fixture.store, plan, "data");
  fixture.store.forget(plan.run);
  CHECK(fixture.store.runs().empty());
  Database database(fixture.home / "dlflow.db");
  for (const std::string table : {"runs", "jobs", "events", "counts", "bases"}) {
    INFO(table);
    CHECK_FALSE(database.query("SELECT 1 FROM " + table)->next());
  }
}

TEST_CASE("the home folder is DLFLOW_HOME, or in the user's state folder", "[store]") {
  const Variable dlflow_home_variable("DLFLOW_HOME", "/a");
  const Variable state("XDG_STATE_HOME", "/b");
  const Variable home("HOME", "/c");
  CHECK(dlflow_home() == "/a");
  const Variable no_dlflow_home("DLFLOW_HOME", {});
  CHECK(dlflow_home() == "/b/dlflow");
  const Variable no_state("XDG_STATE_HOME", {});
  CHECK(dlflow_home() == "/c/.local/state/dlflow");
  const Variable no_home("HOME", {});
  CHECK_THROWS_WITH(dlflow_home(), Catch::Contains("set DLFLOW_HOME"));
}
