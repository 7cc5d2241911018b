#include "engine/track/track.h"

#include "engine/plan/run_directory.h"
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

/// The data that a FakeMlflow received for a run, in order.
struct KnownRun {
  MlflowRun run;
  std::vector<MlflowMetric> metrics = {};
  int descriptions = 0;
};

/// A fake MLflow: a list of runs in order of creation, with ids from "id0" on.
class FakeMlflow : public MlflowStore {
 public:
  explicit FakeMlflow(std::vector<KnownRun>& runs) : runs_(runs) {}

  void use_experiment(const std::string& name) override { CHECK(name == "tracked"); }

  std::string create(const MlflowRun& run) override {
    runs_.push_back({.run = run});
    return "id" + std::to_string(runs_.size() - 1);
  }

  void describe(const std::string& id, const MlflowRun&) override { ++at(id).descriptions; }

  void update(const std::string& id, const MlflowRun& run) override { at(id).run = run; }

  void log(const std::string& id, std::span<const MlflowMetric> metrics) override {
    at(id).metrics.insert(at(id).metrics.end(), metrics.begin(), metrics.end());
  }

 private:
  KnownRun& at(const std::string& id) { return runs_.at(std::stoul(id.substr(2))); }

  std::vector<KnownRun>& runs_;
};

/// A run of train[lr=0.1], train[lr=0.5] and report; the first has written a curve.
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
      row.directory = run.plan.directory / "steps" / planned.name.text();
      run.status.jobs.push_back(row);
    }
    report(0, R"({"step": 1, "loss": 3})");
  }

  JobRow& job(size_t number) { return run.status.jobs.at(number); }
  fs::path directory() const { return run.plan.directory; }

  /// Writes lines as a job does.
  void report(size_t number, const std::string& lines) {
    const fs::path attempt = attempt_directory(job(number).directory, 1);
    make_directories(attempt);
    write_file_atomic(attempt / "metrics.jsonl", lines + "\n");
  }

  void track() const { dlflow::track(run, kEnd, 1s); }

  /// Returns the files of this folder of the run, in order.
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

/// A run that an MLflow server follows.
class InMlflow : public TrackedRun {
 public:
  InMlflow() : TrackedRun("mlflow: http://here") {}

  void track() {
    dlflow::track(run, kEnd, 1s, [this](const std::string& address, std::chrono::milliseconds) {
      return std::make_unique<FakeMlflow>(servers[address]);
    });
  }

  std::vector<KnownRun>& known() { return servers["http://here"]; }

  /// Returns "NAME STATUS" of each run.
  std::vector<std::string> statuses() {
    std::vector<std::string> found;
    for (const KnownRun& each : known()) found.push_back(each.run.name + " " + each.run.status);
    return found;
  }

  std::map<std::string, std::vector<KnownRun>> servers;  ///< keys: addresses
};

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("only jobs that reported a curve or a number are tracked", "[track]") {
  TrackedRun run("tensorboard: true");
  run.job(1).metrics = {{"accuracy", 0.5}};
  run.track();
  CHECK(run.files("tensorboard") == Texts{"train/lr=0.1/events.out.tfevents.1795248000.dlflow",
                                          "train/lr=0.5/events.out.tfevents.1795248000.dlflow"});
}

TEST_CASE("a reused job is left to the run that made it", "[track]") {
  TrackedRun run("tensorboard: true");
  run.job(0).attempt = 0;
  run.track();
  CHECK(run.files("tensorboard").empty());
}

TEST_CASE("an event file grows, and one with other content is written anew", "[track]") {
  TrackedRun run("tensorboard: true");
  run.track();
  const fs::path file = run.directory() / "tensorboard" / run.files("tensorboard").at(0);
  const std::string before = read_file(file);
  fs::create_hard_link(file, run.directory() / "reader");  // follows appended data

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

TEST_CASE("a failing tracker is reported after the others are served", "[track]") {
  TrackedRun run("tensorboard: true, mlflow: http://here, openmetrics: \"/m.prom\"");
  run.run.plan.workflow.track.openmetrics = run.folder.path() / "metrics.prom";
  const OpenMlflow closed = [](auto&&...) -> std::unique_ptr<MlflowStore> {
    throw Error(Errc::Unavailable, "closed");
  };
  CHECK_THROWS_WITH(track(run.run, kEnd, 1s, closed), "closed");
  CHECK(run.files("tensorboard").size() == 1);
  CHECK(fs::exists(run.folder.path() / "metrics.prom"));
}

TEST_CASE("MLflow has a run for the run, and one nested in it for each tracked job", "[track]") {
  InMlflow run;
  run.job(0).metrics = {{"accuracy", 0.5}, {"note", "x"}};
  run.track();
  CHECK(run.statuses() == Texts{"tracked-0000 FINISHED", "train[lr=0.1] FINISHED"});
  const KnownRun &whole = run.known().at(0), &job = run.known().at(1);
  CHECK(whole.run.started == kBegin);
  CHECK(whole.run.ended == kEnd);
  CHECK(job.run.started == kBegin + 60s);
  CHECK(job.run.ended == kBegin + 90s);
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  CHECK(whole.run.params == Pairs{{"epochs", "2"}});
  CHECK(job.run.params == Pairs{{"epochs", "2"}, {"lr", "0.1"}});
  CHECK(job.run.tags.back() == std::pair<std::string, std::string>{"mlflow.parentRunId", "id0"});
  REQUIRE(job.metrics.size() == 2);
  CHECK(job.metrics[0].key == "loss");
  CHECK(job.metrics[0].value == 3);
  CHECK(job.metrics[0].at == kBegin + 60s);
  CHECK(job.metrics[0].step == 1);
  CHECK(job.metrics[1].key == "summary.accuracy");
  CHECK(job.metrics[1].value == 0.5);
  CHECK(job.metrics[1].at == kBegin + 90s);
}

TEST_CASE("MLflow gets the states of a run and its jobs", "[track]") {
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
  CHECK_FALSE(run.known().at(1).run.ended);
  CHECK_FALSE(run.known().at(2).run.ended);
  run.report(0, "{\"step\": 1, \"loss\": 3}\n{\"step\": 2, \"loss\": 2}");
  CHECK(told(RunState::Failed, JobState::Failed, JobState::Cancelled) ==
        Texts{"tracked-0000 FAILED", "train[lr=0.1] FAILED", "train[lr=0.5] KILLED"});
  CHECK(told(RunState::Cancelled, JobState::Failed, JobState::Cancelled).at(0) ==
        "tracked-0000 KILLED");
}

TEST_CASE("MLflow gets each line once, also of a job that goes on", "[track]") {
  InMlflow run;
  run.job(0).state = JobState::Running;
  run.job(0).ended.reset();
  run.track();
  const Json memory = Json::parse(read_file(run.directory() / "mlflow.json"));
  CHECK(memory.at("jobs").at("train[lr=0.1]").at("lines") == 1);
  run.report(0, "{\"step\": 1, \"loss\": 3}\n{\"step\": 2, \"loss\": 2}");
  run.track();
  const auto& metrics = run.known().at(1).metrics;
  REQUIRE(metrics.size() == 2);
  CHECK(metrics[1].step == 2);
  CHECK(metrics[1].value == 2);
}

TEST_CASE("an ended job is reported again only after a further line", "[track]") {
  InMlflow run;
  run.track();
  run.known().at(1).run.status = "untouched";
  run.track();
  CHECK(run.statuses().at(1) == "train[lr=0.1] untouched");
  run.report(0, "{\"step\": 1, \"loss\": 3}\n{\"step\": 2, \"loss\": 2}");
  run.track();
  CHECK(run.statuses().at(1) == "train[lr=0.1] FINISHED");
}

TEST_CASE("another store gets everything from the beginning", "[track]") {
  InMlflow run;
  run.track();
  run.run.plan.workflow.track.mlflow = "http://other";
  run.track();
  CHECK(run.servers["http://other"].size() == 2);
}

TEST_CASE("a run that exists in MLflow is not made again, and described once", "[track]") {
  InMlflow run;
  run.run.status.state = RunState::Running;
  run.job(0).state = JobState::Running;
  run.track();
  run.job(0).state = JobState::Succeeded;
  run.track();
  REQUIRE(run.known().size() == 2);
  CHECK(run.known().at(1).descriptions == 1);
}
