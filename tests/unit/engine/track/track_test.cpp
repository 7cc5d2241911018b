#include "engine/track/track.h"

#include "engine/plan/run_directory.h"
#include "engine/store/database.h"
#include "tests/support/catch.h"
#include "tests/support/parsed.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/engine/plan/plan_of.h"

using namespace dlflow;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

const Time kBegin = from_rfc3339("2026-11-21T08:00:00.000Z");
const Time kEnd = from_rfc3339("2026-11-21T09:00:00.000Z");

/// What MLflow's database has that dlflow writes to.
constexpr const char* kTables = R"(
CREATE TABLE experiments(experiment_id INTEGER PRIMARY KEY, name UNIQUE NOT NULL,
  artifact_location, lifecycle_stage);
CREATE TABLE runs(run_uuid PRIMARY KEY, name, source_type, user_id, status, start_time, end_time,
  lifecycle_stage, artifact_uri, experiment_id);
CREATE TABLE metrics(key, value, timestamp, run_uuid, step, is_nan,
  PRIMARY KEY(key, value, timestamp, run_uuid, step, is_nan));
CREATE TABLE latest_metrics(key, value, timestamp, step, is_nan, run_uuid,
  PRIMARY KEY(key, run_uuid));
CREATE TABLE params(key, value, run_uuid, PRIMARY KEY(key, run_uuid));
CREATE TABLE tags(key, value, run_uuid, PRIMARY KEY(key, run_uuid));
)";

/// A run of train[lr=0.1], train[lr=0.5] and report, of which the first has written a curve.
class TrackedRun {
 public:
  explicit TrackedRun(const std::string& trackers) {
    run.plan = test::plan_of(test::parsed(R"(
name: tracked
params: {epochs: 2}
track: {)" + trackers + R"(}
steps:
  train:
    matrix: {lr: [0.1, 0.5]}
    run: ./train
  report: {run: ./report}
)"));
    run.plan.directory = folder.path() / "runs/tracked-0000";
    make_directories(run.plan.directory);
    run.status.run = "tracked-0000";
    run.status.workflow = "tracked";
    run.status.profile = "local";
    run.status.state = RunState::Succeeded;
    run.status.started = kBegin;
    run.status.ended = kEnd;
    for (const PlannedJob& planned : run.plan.jobs) {
      JobRow row;
      row.job = planned.name;
      row.step = run.plan.workflow.steps[planned.step].name;
      row.state = JobState::Succeeded;
      row.attempt = 1;
      row.started = kBegin + 60s;
      row.ended = kBegin + 90s;
      row.directory = run.plan.directory / "steps" / planned.name;
      run.status.jobs.push_back(row);
    }
    report(0, R"({"step": 1, "loss": 3})");
  }

  JobRow& job(size_t number) { return run.status.jobs.at(number); }
  fs::path directory() const { return run.plan.directory; }

  /// The lines that a job has written.
  void report(size_t number, const std::string& lines) {
    const fs::path attempt = attempt_directory(job(number).directory, 1);
    make_directories(attempt);
    write_file_atomic(attempt / "metrics.jsonl", lines + "\n");
  }

  void track() const { dlflow::track(run, kEnd, 1s); }

  /// Files of this folder of the run, in order.
  std::vector<std::string> files(const std::string& name) const {
    std::vector<std::string> found;
    std::error_code none;
    for (const auto& entry : fs::recursive_directory_iterator(directory() / name, none)) {
      if (entry.is_regular_file()) found.push_back(fs::relative(entry.path(), directory() / name));
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  test::TempDir folder;
  ReportedRun run;
};

/// An empty database of MLflow's.
void make_store(const fs::path& file) {
  write_file_atomic(file, "");
  Database(file, 1s, FileOf::OtherProgram).script(kTables);
}

/// A run that an MLflow database follows.
class InMlflow : public TrackedRun {
 public:
  InMlflow() : TrackedRun("mlflow: \"sqlite:////store.db\"") {
    run.plan.workflow.track.mlflow = "sqlite:///" + store().string();
    make_store(store());
  }

  fs::path store() const { return folder.path() / "store.db"; }

  /// The rows of a query, columns separated by blanks.
  std::vector<std::string> rows(const std::string& query, int columns) const {
    Database database(store(), 1s, FileOf::OtherProgram);
    std::vector<std::string> found;
    const Rows rows = database.query(query);
    while (rows->next()) {
      std::string row;
      for (int i = 0; i < columns; ++i) row += (i > 0 ? " " : "") + rows->text(i);
      found.push_back(row);
    }
    return found;
  }

  std::vector<std::string> statuses() const {
    return rows("SELECT name, status FROM runs ORDER BY name", 2);
  }
};

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("jobs that reported a curve or a number are tracked, no others", "[track]") {
  TrackedRun run("tensorboard: true, wandb: offline");
  run.job(1).metrics = {{"accuracy", 0.5}};
  run.track();
  CHECK(run.files("tensorboard") == Texts{"train/lr=0.1/events.out.tfevents.1795248000.dlflow",
                                          "train/lr=0.5/events.out.tfevents.1795248000.dlflow"});
  CHECK(run.files("wandb").size() == 2);
}

TEST_CASE("a job that was reused is left to the run that made it", "[track]") {
  TrackedRun run("tensorboard: true");
  run.job(0).attempt = 0;
  run.track();
  CHECK(run.files("tensorboard").empty());
}

TEST_CASE("an event file grows, and one that says something else is written anew", "[track]") {
  TrackedRun run("tensorboard: true");
  run.track();
  const fs::path file = run.directory() / "tensorboard" / run.files("tensorboard").at(0);
  const std::string before = read_file(file);
  fs::create_hard_link(file, run.directory() / "reader");  // it follows what is appended

  run.report(0, "{\"step\": 1, \"loss\": 3}\n{\"step\": 2, \"loss\": 2}");
  run.track();
  const std::string after = read_file(file);
  CHECK(after.size() > before.size());
  CHECK(after.starts_with(before));
  CHECK(fs::equivalent(file, run.directory() / "reader"));

  write_file_atomic(file, "something else");
  run.track();
  CHECK(read_file(file) == after);
}

TEST_CASE("a tracker that cannot be served is told, after the others have been", "[track]") {
  TrackedRun run("tensorboard: true, wandb: offline, openmetrics: \"/m.prom\"");
  run.run.plan.workflow.track.openmetrics = run.folder.path() / "metrics.prom";
  run.run.plan.workflow.track.mlflow = "sqlite:////nowhere/store.db";
  CHECK_THROWS_WITH(run.track(), Catch::Matchers::Contains("it is not there yet"));
  CHECK(run.files("tensorboard").size() == 1);
  CHECK(run.files("wandb").size() == 1);
  CHECK(fs::exists(run.folder.path() / "metrics.prom"));
}

TEST_CASE("MLflow has a run for the run, and one nested in it for each tracked job", "[track]") {
  InMlflow run;
  run.job(0).metrics = {{"accuracy", 0.5}, {"note", "x"}};
  run.track();
  CHECK(run.statuses() == Texts{"tracked-0000 FINISHED", "train[lr=0.1] FINISHED"});
  CHECK(run.rows("SELECT name, start_time, end_time FROM runs ORDER BY name", 3) ==
        Texts{"tracked-0000 1795248000000 1795251600000",
              "train[lr=0.1] 1795248060000 1795248090000"});
  CHECK(run.rows("SELECT runs.name, params.key, params.value FROM params JOIN runs USING(run_uuid) "
                 "ORDER BY runs.name, key",
                 3) ==
        Texts{"tracked-0000 epochs 2", "train[lr=0.1] epochs 2", "train[lr=0.1] lr 0.1"});
  CHECK(run.rows("SELECT tags.key, parent.name FROM tags JOIN runs AS parent ON tags.value = "
                 "parent.run_uuid",
                 2) == Texts{"mlflow.parentRunId tracked-0000"});
  CHECK(run.rows("SELECT key, value, timestamp, step FROM metrics ORDER BY key", 4) ==
        Texts{"loss 3 1795248060000 1", "summary.accuracy 0.5 1795248090000 0"});
}

TEST_CASE("MLflow is told how a run and its jobs stand", "[track]") {
  InMlflow run;
  run.job(1).metrics = {{"accuracy", 0.5}};
  const auto told = [&](RunState state, JobState first, JobState second) {
    run.run.status.state = state;
    run.job(0).state = first;
    run.job(1).state = second;
    run.job(1).ended = run.job(1).ended.value() + 1s;
    run.track();
    return run.statuses();
  };
  CHECK(told(RunState::Running, JobState::Running, JobState::Queued) ==
        Texts{"tracked-0000 RUNNING", "train[lr=0.1] RUNNING", "train[lr=0.5] RUNNING"});
  CHECK(run.rows("SELECT name FROM runs WHERE name LIKE 'train%' AND end_time IS NULL", 1).size() ==
        2);
  run.report(0, "{\"step\": 1, \"loss\": 3}\n{\"step\": 2, \"loss\": 2}");
  CHECK(told(RunState::Failed, JobState::Failed, JobState::Cancelled) ==
        Texts{"tracked-0000 FAILED", "train[lr=0.1] FAILED", "train[lr=0.5] KILLED"});
  CHECK(told(RunState::Cancelled, JobState::Failed, JobState::Cancelled).at(0) ==
        "tracked-0000 KILLED");
}

TEST_CASE("MLflow is told each line once, also of a job that goes on", "[track]") {
  InMlflow run;
  run.job(0).state = JobState::Running;
  run.job(0).ended.reset();
  run.track();
  const Json memory = Json::parse(read_file(run.directory() / "mlflow.json"));
  CHECK(memory.at("jobs").at("train[lr=0.1]").at("lines") == 1);
  {
    Database database(run.store(), 1s, FileOf::OtherProgram);
    database.execute("DELETE FROM metrics");
  }
  run.report(0, "{\"step\": 1, \"loss\": 3}\n{\"step\": 2, \"loss\": 2}");
  run.track();
  CHECK(run.rows("SELECT step, value FROM metrics", 2) == Texts{"2 2"});
}

TEST_CASE("nothing more is said of a job that has ended, until it has a line more", "[track]") {
  InMlflow run;
  run.track();
  {
    Database database(run.store(), 1s, FileOf::OtherProgram);
    database.execute("UPDATE runs SET status = 'untouched' WHERE name LIKE 'train%'");
  }
  run.track();
  CHECK(run.statuses().at(1) == "train[lr=0.1] untouched");
  run.report(0, "{\"step\": 1, \"loss\": 3}\n{\"step\": 2, \"loss\": 2}");
  run.track();
  CHECK(run.statuses().at(1) == "train[lr=0.1] FINISHED");
}

TEST_CASE("another store is told all from the beginning", "[track]") {
  InMlflow run;
  run.track();
  const fs::path other = run.folder.path() / "other.db";
  make_store(other);
  run.run.plan.workflow.track.mlflow = "sqlite:///" + other.string();
  run.track();
  Database database(other, 1s, FileOf::OtherProgram);
  const Rows rows = database.query("SELECT count(*) FROM runs");
  REQUIRE(rows->next());
  CHECK(rows->integer(0) == 2);
}

TEST_CASE("a run that MLflow knows is not made again, and described once", "[track]") {
  InMlflow run;
  run.run.status.state = RunState::Running;
  run.job(0).state = JobState::Running;
  run.track();
  const Texts made = run.rows("SELECT run_uuid FROM runs ORDER BY name", 1);
  {
    Database database(run.store(), 1s, FileOf::OtherProgram);
    database.execute("DELETE FROM params");
  }
  run.job(0).state = JobState::Succeeded;
  run.track();
  CHECK(run.rows("SELECT run_uuid FROM runs ORDER BY name", 1) == made);
  CHECK(run.rows("SELECT key FROM params", 1).empty());
}
