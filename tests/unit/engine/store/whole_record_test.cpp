#include "engine/store/job_table.h"
#include "tests/support/catch.h"
#include "tests/unit/engine/store/store_fixture.h"

using namespace dlflow;
using namespace dlflow::test;

namespace {

/// Every field has a value that no other field has.
JobRecord whole_record() {
  JobRecord record;
  record.state = TimedOut;
  record.attempt = 3;
  record.started = at(11);
  record.ended = at(12);
  record.backend_id = "4711_2";
  record.node = "n1";
  record.exit = 75;
  record.reason = "walltime reached";
  record.fingerprint = fingerprint_named("f1");
  record.outputs = {{"model", {{"value", "/m"}, {"sha256", "0a"}}}};
  record.metrics = {{"loss", 0.5}};
  record.reused_from = "/runs/other/steps/a";
  return record;
}

JobEvent whole_event(JobState state) {
  const JobRecord values = whole_record();
  JobEvent result = event("a", values.attempt, state, 20, values.reason);
  result.backend_id = values.backend_id;
  result.node = values.node;
  result.exit = values.exit;
  result.fingerprint = values.fingerprint;
  result.outputs = values.outputs;
  result.metrics = values.metrics;
  result.published_nothing = true;
  result.reused_from = values.reused_from;
  result.failed_tries = 2;
  result.preempted = true;
  result.walltime = std::chrono::seconds(77);
  result.failed_node = "n7";
  result.used = PassUsage{std::chrono::milliseconds(1234), uint64_t{5} << 30};
  return result;
}

JobRecord after(const std::vector<JobEvent>& events) {
  JobRecord record;
  for (const JobEvent& e : events) apply(record, e);
  return record;
}

constexpr const char* kTwo = "name: two\nsteps:\n  a: {run: ./a}\n  b: {run: ./b}\n";

}  // namespace

TEST_CASE("every field of a job's record is read back from the table", "[store]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kTwo);
  Database database(fixture.home / "dlflow.db");
  const JobRecord record = GENERATE(whole_record(), JobRecord());
  for (const auto& [name, number, num_events] :
       std::vector<std::tuple<JobName, uint32_t, int64_t>>{{"a", 0, 7}, {"b", 1, 8}}) {
    StoredJob job = load_job(database, 1, name);
    CHECK(job.number == number);
    CHECK(job.name == name);
    CHECK(job.record == JobRecord());
    job.record = record;
    job.num_events = num_events;
    save_job(database, 1, job);
  }
  const std::vector<StoredJob> jobs = load_jobs(database, 1);
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].record == record);
  CHECK(jobs[1].record == record);
  CHECK(jobs[0].num_events == 7);
  CHECK(jobs[1].num_events == 8);
  CHECK(jobs[1].name == "b");
  CHECK(load_job(database, 1, "b").record == record);
}

TEST_CASE("no table is scanned for one job", "[store]") {
  StoreFixture fixture;
  fixture.stored_run(kTwo);
  Database database(fixture.home / "dlflow.db");
  const Rows rows = database.query("EXPLAIN QUERY PLAN " + select_job(), 1, "a");
  size_t steps = 0;
  for (; rows->next(); ++steps) CHECK_FALSE(rows->text(3).starts_with("SCAN"));
  CHECK(steps >= 2);  // the job, and whether it stands for others
}

TEST_CASE("status shows every field of a job's record", "[store]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run("name: m\nsteps:\n  s: {run: ./s, matrix: {x: [1, 2]}}\n");
  fixture.store.set_run_state(plan.run, RunState::Failed, at(99));
  Database database(fixture.home / "dlflow.db");
  StoredJob job = load_job(database, 1, "s[x=2]");
  job.record = whole_record();
  save_job(database, 1, job);

  const RunStatus status = fixture.store.status(plan.run);
  CHECK(status.run == plan.run);
  CHECK(status.ended == at(99));
  CHECK(status.jobs[0].metrics == Json::object());
  CHECK(status.jobs[0].outputs == Json::object());
  const JobRow& row = status.jobs.at(1);
  CHECK(row.step == "s");
  CHECK(row.element == "x=2");
  CHECK(row.job == "s[x=2]");
  CHECK(row.state == TimedOut);
  CHECK(row.attempt == 3);
  CHECK(row.backend_id == "4711_2");
  CHECK(row.node == "n1");
  CHECK(row.started == at(11));
  CHECK(row.ended == at(12));
  CHECK(row.exit == 75);
  CHECK(row.reason == "walltime reached");
  CHECK(row.outputs == Json{{"model", "/m"}});
  CHECK(row.metrics == Json{{"loss", 0.5}});
  CHECK(row.directory == "/runs/other/steps/a");
}

TEST_CASE("the list of runs has every field of a run", "[store]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kTwo, at(5));
  fixture.store.set_run_state(plan.run, RunState::Cancelled, at(99));
  const RunSummary run = fixture.store.runs().at(0);
  CHECK(run.run == plan.run);
  CHECK(run.workflow == "two");
  CHECK(run.profile == "local");
  CHECK(run.state == RunState::Cancelled);
  CHECK(run.started == at(5));
  CHECK(run.ended == at(99));
  CHECK(run.directory == plan.directory);
  CHECK(run.jobs == std::map<JobState, size_t>{{Planned, 2}});
}

TEST_CASE("every field of an event is read back from the store", "[store]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kTwo);
  JobEvent note;
  note.job = "a";
  note.attempt = 3;
  note.at = at(21);
  const std::vector<JobEvent> events = {whole_event(Running), note};
  fixture.store.record(plan.run, events);
  CHECK(fixture.store.events(plan.run, "a") == events);
}

TEST_CASE("a reused result has the names of its user and its maker", "[store]") {
  StoreFixture fixture;
  const Plan plan = fixture.stored_run(kTwo);
  const Plan other = fixture.stored_run(kTwo);
  JobEvent cached = whole_event(Cached);
  cached.attempt = 0;
  fixture.store.record(plan.run, std::vector{cached});
  fixture.store.record(other.run, std::vector{event("a", 1, Submitting)});
  const std::vector<Reuse> reuses = fixture.store.reuses();
  REQUIRE(reuses.size() == 1);
  CHECK(reuses[0].run == plan.run);
  CHECK(reuses[0].run_directory == plan.directory);
  CHECK(reuses[0].from == "/runs/other/steps/a");
}

TEST_CASE("an event holds all fields of a record", "[record]") {
  JobRecord record;
  apply(record, event("a", 3, Submitting, 10));
  apply(record, event("a", 3, Running, 11));
  apply(record, whole_event(TimedOut));
  JobRecord expected = whole_record();
  expected.ended = at(20);
  CHECK(record == expected);
}

TEST_CASE("a note replaces the fields that it has and leaves the rest", "[record]") {
  const auto noted = [](const JobEvent& note) {
    JobRecord record = whole_record();
    apply(record, note);
    return record;
  };
  JobEvent note;
  note.attempt = 3;
  CHECK(noted(note) == whole_record());
  JobRecord expected = whole_record();
  SECTION("the reason") { expected.reason = note.reason = "another"; }
  SECTION("the batch id") { expected.backend_id = note.backend_id = "12"; }
  SECTION("the node") { expected.node = note.node = "n2"; }
  SECTION("the exit status") { expected.exit = note.exit = 0; }
  SECTION("the metrics") { expected.metrics = note.metrics = {{"epoch", 1}}; }
  CHECK(noted(note) == expected);
  note.attempt = 2;
  CHECK(noted(note) == whole_record());  // belongs to an earlier attempt
}

TEST_CASE("an event without an attempt changes the latest one", "[record]") {
  JobRecord record;
  apply(record, event("a", 2, Submitting, 1));
  apply(record, event("a", 0, Blocked, 2, "waits for b"));
  CHECK(record.state == Blocked);
  CHECK(record.attempt == 2);
  CHECK(record.ended == at(2));
  apply(record, event("a", 0, Planned, 3));
  CHECK_FALSE(record.ended.has_value());
}

TEST_CASE("a repeated state may add values", "[record]") {
  JobRecord record;
  apply(record, event("a", 1, Submitting, 1));
  apply(record, event("a", 1, Running, 2));
  JobEvent again = event("a", 1, Running, 3, "on another node");
  again.node = "n2";
  apply(record, again);
  CHECK(record.node == "n2");
  CHECK(record.reason == "on another node");
  CHECK(record.started == at(2));
}

TEST_CASE("the state of a run follows from each state of its jobs", "[store]") {
  const auto settled = [](std::initializer_list<JobState> states) {
    Counts counts;
    for (const JobState state : states) ++counts[state];
    return settled_state(counts);
  };
  CHECK(settled({}) == RunState::Succeeded);
  CHECK(settled({Succeeded, Cached, Skipped}) == RunState::Succeeded);
  for (const JobState waits : {Planned, Submitting}) {
    CHECK(settled({waits, Succeeded}) == RunState::Interrupted);
    CHECK(settled({waits, Cancelled}) == RunState::Cancelled);
  }
  for (const JobState bad : {Failed, TimedOut, Lost, Blocked}) {
    CHECK(settled({bad, Succeeded, Cancelled, Planned}) == RunState::Failed);
    CHECK(settled({bad, Queued}) == RunState::Running);
  }
  CHECK(settled({Running, Cancelled, Failed}) == RunState::Running);
}

TEST_CASE("the name of a run's state is read back as that state", "[store]") {
  for (const RunState state : {RunState::Running, RunState::Succeeded, RunState::Failed,
                               RunState::Cancelled, RunState::Interrupted}) {
    CHECK(run_state(name(state)) == state);
  }
  CHECK(name(RunState::Interrupted) == "interrupted");
  CHECK_THROWS_WITH(run_state("done"), Catch::Contains("'done' is not the state of a run"));
}

TEST_CASE("an attempt begins with its first running and ends with its last state", "[record]") {
  const JobRecord record = after({event("a", 1, Submitting, 1), event("a", 1, Queued, 2),
                                  event("a", 1, Running, 3), event("a", 1, Queued, 5, "requeued"),
                                  event("a", 1, Running, 6), event("a", 1, Succeeded, 9)});
  CHECK(record.state == Succeeded);
  CHECK(record.attempt == 1);
  CHECK(record.started == at(3));
  CHECK(record.ended == at(9));
  CHECK(record.reason.empty());
}

TEST_CASE("a late event changes nothing", "[record]") {
  CHECK(after({event("a", 1, Submitting), event("a", 1, Running), event("a", 1, Succeeded, 5),
               event("a", 1, Lost, 6)})
            .state == Succeeded);
  CHECK(after({event("a", 1, Submitting), event("a", 1, Lost), event("a", 1, Planned),
               event("a", 2, Submitting), event("a", 1, Succeeded)})
            .state == Submitting);
}

TEST_CASE("a new attempt forgets the old one", "[record]") {
  const JobRecord record =
      after({event("a", 1, Submitting), event("a", 1, Running, 3),
             event("a", 1, Failed, 4, "exit 3"), event("a", 2, Submitting, 5)});
  CHECK(record == after({event("a", 2, Submitting, 5)}));
}

TEST_CASE("a job that waits for its retry shows the reason", "[record]") {
  const JobRecord record = after({event("a", 1, Submitting), event("a", 1, Running, 3),
                                  event("a", 1, Lost, 4, "its node is gone"),
                                  event("a", 1, Planned, 5, "again: its node is gone")});
  CHECK(record.state == Planned);
  CHECK(record.reason == "again: its node is gone");
  CHECK_FALSE(record.ended.has_value());
}
