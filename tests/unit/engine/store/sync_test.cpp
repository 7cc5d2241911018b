
#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/in_child.h"
#include "tests/unit/engine/store/store_fixture.h"

using namespace dlflow;
using namespace dlflow::test;

namespace fs = std::filesystem;

namespace {

constexpr const char* kText = R"(
name: chain
steps:
  a: {run: ./a}
  b: {run: ./b, needs: [a]}
)";

/// Writes `events` as the engine does.
void engine_says(const Plan& plan, const std::vector<JobEvent>& events) {
  AppendFile file(engine_events_file(plan.directory));
  for (const JobEvent& event : events) file.append(to_line(event));
}

std::vector<JobState> recorded(Store& store, const Plan& plan, const JobName& job) {
  std::vector<JobState> states;
  for (const JobEvent& event : store.events(plan.run, job)) states.push_back(*event.state);
  return states;
}

using States = std::vector<JobState>;

}  // namespace

TEST_CASE("events that a killed engine left unrecorded are found", "[sync]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kText);
  engine_says(plan, {event("a", 1, Submitting, 1), event("a", 1, Queued, 2)});
  fixture.store.record(plan.run, std::vector{event("a", 1, Submitting, 1)});
  finish_on_disk(plan, 0, {event("a", 1, Running, 3), event("a", 1, Succeeded, 4)});

  CHECK(fixture.store.sync_run(plan.directory) == plan.run);
  CHECK(recorded(fixture.store, plan, "a") == States{Submitting, Queued, Running, Succeeded});
  CHECK(fixture.store.status(plan.run).jobs[0].state == Succeeded);
  fixture.store.sync_run(plan.directory);
  CHECK(recorded(fixture.store, plan, "a").size() == 4);
}

TEST_CASE("events that are missing among equal ones are added from the file", "[sync]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kText);
  const std::vector events = {event("a", 1, Submitting, 1), event("a", 1, Queued, 2),
                              event("a", 1, Lost, 2), event("a", 1, Queued, 2)};
  for (const JobEvent& event : events) fixture.store.record(plan.run, std::span(&event, 1));
  engine_says(plan, events);
  fixture.store.sync_run(plan.directory);
  CHECK(recorded(fixture.store, plan, "a") == States{Submitting, Queued, Lost, Queued});
  CHECK(fixture.store.status(plan.run).jobs[0].state == Queued);
}

TEST_CASE("a run that is missing in the store is added", "[sync]") {
  StoreFixture fixture;
  const Plan plan = fixture.new_run(kText, at(7));
  engine_says(plan, {event("a", 1, Submitting, 1)});
  fixture.store.sync_run(plan.directory);
  CHECK(fixture.store.status(plan.run).started == at(7));
  CHECK(recorded(fixture.store, plan, "a") == States{Submitting});
}

TEST_CASE("later syncs read only new events", "[sync]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kText);
  engine_says(plan, {event("a", 1, Submitting, 1), event("a", 1, Queued, 2)});
  fixture.store.sync_run(plan.directory);
  CHECK(fixture.store.status(plan.run).state == RunState::Running);
  finish_on_disk(plan, 0, {event("a", 1, Running, 3), event("a", 1, Failed, 4)});
  engine_says(plan, {event("b", 0, Blocked, 5, "waits for a")});
  fixture.store.sync_run(plan.directory);
  const RunStatus status = fixture.store.status(plan.run);
  CHECK(status.jobs[0].state == Failed);
  CHECK(status.jobs[1].state == Blocked);
  CHECK(status.state == RunState::Failed);
  CHECK(status.ended == at(5));
}

TEST_CASE("the engine's final state stays until something new is found", "[sync]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kText);
  fixture.store.set_run_state(plan.run, RunState::Cancelled, at(1));  // before any job
  fixture.store.sync_run(plan.directory);
  CHECK(fixture.store.status(plan.run).state == RunState::Cancelled);
  engine_says(plan, {event("a", 1, Submitting, 2)});
  fixture.store.sync_run(plan.directory);
  CHECK(fixture.store.status(plan.run).state == RunState::Interrupted);
}

TEST_CASE("an unchanged record that is read again does not change the end of a run", "[sync]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kText);
  engine_says(plan,
              {event("a", 1, Submitting, 1), event("a", 1, Queued, 2), event("a", 1, Lost, 9)});
  AppendFile(make_attempt(plan, 0, 1) / "events.jsonl").append(to_line(event("", 0, Running, 3)));
  fixture.store.sync_run(plan.directory);
  fixture.store.set_run_state(plan.run, RunState::Cancelled, at(20));
  fixture.store.sync_run(plan.directory);
  CHECK(fixture.store.status(plan.run).state == RunState::Cancelled);
  CHECK(fixture.store.status(plan.run).ended == at(20));
}

TEST_CASE("different clocks of two nodes do not change the order", "[sync]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kText);
  engine_says(plan, {event("a", 1, Submitting, 100), event("a", 1, Queued, 101)});
  finish_on_disk(plan, 0, {event("a", 1, Running, 3), event("a", 1, Succeeded, 4)});
  fixture.store.sync_run(plan.directory);
  CHECK(recorded(fixture.store, plan, "a") == States{Submitting, Queued, Running, Succeeded});
}

TEST_CASE("attempts follow each other, with the engine's verdict on each", "[sync]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kText);
  engine_says(plan,
              {event("a", 1, Submitting, 1), event("a", 1, Queued, 2), event("a", 1, Lost, 5),
               event("a", 1, Planned, 6), event("a", 2, Submitting, 7), event("a", 2, Queued, 8)});
  AppendFile(make_attempt(plan, 0, 1) / "events.jsonl").append(to_line(event("", 0, Running, 3)));
  AppendFile(make_attempt(plan, 0, 2) / "events.jsonl").append(to_line(event("", 0, Running, 9)));
  fixture.store.sync_run(plan.directory);
  CHECK(recorded(fixture.store, plan, "a") ==
        States{Submitting, Queued, Running, Lost, Planned, Submitting, Queued, Running});
  CHECK(fixture.store.status(plan.run).jobs[0].attempt == 2);
}

TEST_CASE("a late record outweighs the loss of its job, also in a rebuilt index", "[sync]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kText);
  engine_says(plan,
              {event("a", 1, Submitting, 1), event("a", 1, Queued, 2), event("a", 1, Lost, 9)});
  fixture.store.sync_run(plan.directory);
  CHECK(fixture.store.status(plan.run).jobs[0].state == Lost);
  finish_on_disk(plan, 0, {event("a", 1, Running, 3), event("a", 1, Succeeded, 4)});
  fixture.store.sync_run(plan.directory);
  CHECK(fixture.store.status(plan.run).jobs[0].state == Succeeded);
  fixture.store.rebuild_run(plan.directory);
  CHECK(fixture.store.status(plan.run).jobs[0].state == Succeeded);
}

TEST_CASE("two processes that sync at once record each event once", "[sync]") {
  StoreFixture fixture;
  const Plan plan = fixture.new_run(kText);
  engine_says(plan, {event("a", 1, Submitting, 1), event("a", 1, Queued, 2)});
  finish_on_disk(plan, 0, {event("a", 1, Running, 3), event("a", 1, Succeeded, 4)});
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(begin_child([&] {
      Store(fixture.home).sync_run(plan.directory);
      return 0;
    }));
  }
  for (const pid_t child : children) CHECK(wait_for(child).code == 0);
  CHECK(recorded(fixture.store, plan, "a") == States{Submitting, Queued, Running, Succeeded});
}

TEST_CASE("a lost database is rebuilt from the run directories", "[sync]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kText);
  engine_says(plan, {event("a", 1, Submitting, 1), event("a", 1, Queued, 2)});
  finish_on_disk(plan, 0, {event("a", 1, Running, 3), succeeded("a", "f1", "relative/path", 4)});
  fixture.store.sync_run(plan.directory);
  const RunStatus before = fixture.store.status(plan.run);

  Store fresh(fixture.folder.path() / "new-home");
  CHECK(fresh.rebuild_run(plan.directory) == plan.run);
  CHECK(fresh.rebuild_run(plan.directory) == plan.run);
  const RunStatus after = fresh.status(plan.run);
  REQUIRE(after.jobs.size() == before.jobs.size());
  CHECK(after.started == before.started);
  for (size_t i = 0; i < after.jobs.size(); ++i) {
    CHECK(after.jobs[i].state == before.jobs[i].state);
    CHECK(after.jobs[i].outputs == before.jobs[i].outputs);
    CHECK(after.jobs[i].ended == before.jobs[i].ended);
  }
  CHECK(fresh.find(fingerprint_named("f1"), {}).has_value());
}

TEST_CASE("oversized events are refused before they are read", "[sync][attack]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kText);
  engine_says(plan, {event("a", 1, Submitting, 1)});
  finish_on_disk(plan, 0, {event("a", 1, Running, 2), event("a", 1, Succeeded, 3)});
  const fs::path of_attempt = attempt_directory(job_directory(plan.directory, "a"), 1);
  const fs::path file =
      GENERATE(true, false) ? engine_events_file(plan.directory) : of_attempt / "events.jsonl";
  fs::resize_file(file, uint64_t{1} << 40);  // a sparse file, larger than any disk
  CHECK_THROWS_WITH(fixture.store.sync_run(plan.directory),
                    Catch::Contains(file.string() + " is damaged: there are 1.0 TiB of events"));
  fs::remove(file);
  fixture.store.sync_run(plan.directory);
}

TEST_CASE("the records of all attempts of a job count together", "[sync][attack]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kText);
  engine_says(plan, {event("a", 1, Submitting, 1)});
  const fs::path directory = job_directory(plan.directory, "a");
  for (const int attempt : {1, 2}) {
    const fs::path file = attempt_directory(directory, attempt) / "events.jsonl";
    make_directories(file.parent_path());
    write_file_atomic(file, "\n");
    fs::resize_file(file, uint64_t{33} << 20);
  }
  CHECK_THROWS_WITH(fixture.store.sync_run(plan.directory),
                    Catch::Contains("attempt-2/events.jsonl is damaged: there are 66"));
}

TEST_CASE("jobs with large records are read one after the other", "[sync]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kText);
  engine_says(plan, {event("a", 1, Submitting, 1), event("b", 1, Submitting, 1)});
  for (const uint32_t job : {0, 1}) {
    const JobName name = plan.jobs[job].name;
    finish_on_disk(plan, job, {event(name, 1, Running, 2), event(name, 1, Succeeded, 3)});
    const fs::path file =
        attempt_directory(job_directory(plan.directory, name), 1) / "events.jsonl";
    write_file_atomic(file, read_file(file) + std::string(size_t{63} << 20, '\n'));
  }
  fixture.store.sync_run(plan.directory);
  for (const char* name : {"a", "b"}) {
    CHECK(recorded(fixture.store, plan, name) == States{Submitting, Running, Succeeded});
  }
  fixture.store.sync_run(plan.directory);
  CHECK(recorded(fixture.store, plan, "a").size() == 3);
}

TEST_CASE("a folder that is not a run is refused", "[sync]") {
  StoreFixture fixture;
  CHECK_THROWS_WITH(fixture.store.sync_run(fixture.folder.path()),
                    Catch::Contains("is not the folder of a run"));
}
