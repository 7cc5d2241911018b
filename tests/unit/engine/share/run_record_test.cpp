#include "engine/share/run_record.h"

#include <algorithm>

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

namespace fs = std::filesystem;

namespace {

Time at(int seconds) { return Time(std::chrono::seconds(seconds)); }

JobEvent event(JobState state, int seconds, const std::string& node = "") {
  JobEvent event;
  event.attempt = 2;
  event.state = state;
  event.at = at(seconds);
  event.node = node;
  return event;
}

/// A run of three steps on two nodes: a `stage` step, one with outputs and one that failed.
class PackedRunOf {
 public:
  PackedRunOf() {
    plan.directory = directory;
    plan.base = "/flows/of/ada";
    plan.workflow.name = "shared";
    plan.workflow.params = {{"n", 5}};
    plan.workflow.images = {{"box", "oci:box", Digest::of_hex(std::string(64, 'b')), {}, {}},
                            {"far", "docker://far", {}, {}, {}}};
    plan.profile.scheduler = "slurm";
    plan.profile.container.runtime = "podman";
    plan.files = {{"a.sh", "sha-a"}};
    for (const char* step : {"get", "work", "fails"}) {
      plan.workflow.steps.emplace_back();
      plan.workflow.steps.back().name = step;
      status.jobs.push_back(row(step, JobState::Succeeded));
    }
    plan.workflow.steps[0].uses = "stage";
    status.jobs[1].metrics = {{"loss", 0.5}};
    status.jobs[2].state = JobState::Failed;
    status.jobs[2].ended.reset();
    status.run = "shared-7f3a";
    status.state = RunState::Failed;
    status.started = at(100);
    status.ended = at(200);
    write("plan.json", R"({"dlflow": "0.9.1"})");
    write("steps/get/attempt-2/pass-1/outputs/data", "staged");
    write("steps/work/attempt-2/pass-1/outputs/deep/result", "42");
    write("steps/work/attempt-2/pass-1/outputs/where", "on beta7");
    write("steps/work/attempt-2/metrics.jsonl",
          "{\"loss\": 1, \"message\": \"x\"}\n[1]\nnone\n{\"message\": \"y\"}\n{\"loss\": 0.5}\n");
    write("steps/work/checkpoints/step-1/model", "weights");
    write("steps/work/checkpoints/step-2.tmp.77/model", "torn");
    write("steps/work/checkpoints/file.tmp.1", "whole");
    write("steps/fails/attempt-2/pass-1/outputs/half", "half");
    for (const char* step : {"get", "work", "fails"}) {
      fs::create_directory_symlink("attempt-2/pass-1/outputs",
                                   directory / "steps" / step / "outputs");
    }
    fs::create_symlink("model", directory / "steps/work/checkpoints/step-1/latest");
    fs::create_symlink("/etc/passwd", directory / "steps/work/checkpoints/theirs");
    JobEvent done = event(JobState::Succeeded, 120, "beta7");
    done.exit = 0;
    done.fingerprint = Fingerprint::of_hex(std::string(64, 'f'));
    const std::string job = (directory / "steps/work").string();
    done.outputs = {{"result", {{"value", job + "/outputs/deep/result"}, {"sha256", "s1"}}},
                    {"best", {{"value", job + "/checkpoints/step-1"}, {"sha256", "s2"}}},
                    {"other", {{"value", job + "/attempt-2"}, {"sha256", "s3"}}},
                    {"word", {{"value", "outputs/word"}, {"sha256", "s4"}}},
                    {"number", {{"value", 7}}},
                    {"node", {{"value", "alpha3"}, {"sha256", "s5"}}}};
    JobEvent note;
    note.node = "alpha3";
    events["work"] = {event(JobState::Running, 110, "alpha3"), note, done};
    JobEvent staged = event(JobState::Succeeded, 105, "alpha3");
    staged.outputs = {
        {"path", {{"value", (directory / "steps/get/outputs").string()}, {"sha256", "s0"}}}};
    events["get"] = {event(JobState::Queued, 101), staged};
  }

  JobRow row(const std::string& step, JobState state) const {
    JobRow row;
    row.step = step;
    row.job = JobName(step);
    row.state = state;
    row.attempt = 2;
    row.started = at(110);
    row.ended = at(120);
    row.directory = (directory / "steps" / step).string();
    return row;
  }

  void write(const std::string& name, const std::string& content) const {
    folder.write("runs/shared-7f3a/" + name, content);
  }

  FreshFileHashes hashes;
  void record() { left_out = add_run(bundle, {plan, status, events}, hashes); }

  /// Returns the names of all files except run.json.
  std::vector<std::string> names() const {
    std::vector<std::string> list;
    for (const BundleFile& file : bundle.files) {
      if (file.name != "run/run.json") list.push_back(file.name);
    }
    std::sort(list.begin(), list.end());
    return list;
  }
  std::string text(const std::string& name) const {
    for (const BundleFile& file : bundle.files) {
      if (file.name == name) return file.text;
    }
    return "none";
  }

  test::TempDir folder;
  fs::path directory = folder.path() / "runs/shared-7f3a";
  Plan plan;
  RunStatus status;
  std::map<std::string, std::vector<JobEvent>> events;
  Bundle bundle;
  std::vector<std::string> left_out;
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a run's record has each job and event, and names no machine", "[run_record]") {
  PackedRunOf run;
  run.record();
  const Json expected = Json::parse(R"({
    "run": "shared-7f3a", "workflow": "shared", "state": "failed", "dlflow": "0.9.1",
    "started": "1970-01-01T00:01:40.000Z", "ended": "1970-01-01T00:03:20.000Z",
    "scheduler": "slurm", "container_runtime": "podman", "nodes": 2, "params": {"n": 5},
    "images": {"box": "sha256:)" + std::string(64, 'b') +
                                    R"("}, "files": {"a.sh": "sha-a"}, "data": {},
    "jobs": [
      {"job": "get", "state": "succeeded", "attempt": 2, "fingerprint": "", "metrics": {},
       "started": "1970-01-01T00:01:50.000Z", "ended": "1970-01-01T00:02:00.000Z",
       "outputs": {"path": {"value": null, "sha256": "s0", "path": "outputs"}},
       "events": [{"at": "1970-01-01T00:01:41.000Z", "attempt": 2, "state": "queued",
                   "node": null, "exit": null},
                  {"at": "1970-01-01T00:01:45.000Z", "attempt": 2, "state": "succeeded",
                   "node": "node-1", "exit": null}]},
      {"job": "work", "state": "succeeded", "attempt": 2, "fingerprint": ")" +
                                    std::string(64, 'f') + R"(",
       "metrics": {"loss": 0.5},
       "started": "1970-01-01T00:01:50.000Z", "ended": "1970-01-01T00:02:00.000Z",
       "outputs": {"result": {"value": "run/steps/work/outputs/deep/result", "sha256": "s1",
                              "path": "outputs/deep/result"},
                   "best": {"value": "run/steps/work/checkpoints/step-1", "sha256": "s2",
                            "path": "checkpoints/step-1"},
                   "other": {"value": null, "sha256": "s3"},
                   "word": {"value": "outputs/word", "sha256": "s4"},
                   "number": {"value": 7, "sha256": ""},
                   "node": {"value": null, "sha256": "s5"}},
       "events": [{"at": "1970-01-01T00:01:50.000Z", "attempt": 2, "state": "running",
                   "node": "node-1", "exit": null},
                  {"at": "1970-01-01T00:02:00.000Z", "attempt": 2, "state": "succeeded",
                   "node": "node-2", "exit": 0}]},
      {"job": "fails", "state": "failed", "attempt": 2, "fingerprint": "", "metrics": {},
       "started": "1970-01-01T00:01:50.000Z", "ended": null, "outputs": {}, "events": []}]})");
  const Json record = Json::parse(run.text("run/run.json"));
  for (const auto& [key, value] : expected.items()) {
    INFO(key);
    CHECK(record.at(key).dump() == value.dump());
  }
  CHECK(record.size() == expected.size());
  CHECK(run.bundle.manifest.run == "shared-7f3a");
}

TEST_CASE("the outputs of a run's jobs are packed, except private or torn ones", "[run_record]") {
  PackedRunOf run;
  run.record();
  CHECK(run.names() == Names{"run/steps/work/checkpoints/file.tmp.1",
                             "run/steps/work/checkpoints/step-1/latest",
                             "run/steps/work/checkpoints/step-1/model",
                             "run/steps/work/metrics.jsonl", "run/steps/work/outputs/deep/result"});
  CHECK(run.text("run/steps/work/metrics.jsonl") == "{\"loss\":1}\n{\"loss\":0.5}\n");
  std::sort(run.left_out.begin(), run.left_out.end());
  CHECK(run.left_out.size() == 3);
  CHECK(run.left_out.back().starts_with("the result of work is not in the bundle as it was"));
  run.left_out.pop_back();
  CHECK(run.left_out == Names{"run/steps/work/checkpoints/theirs is left out: it is a link to "
                              "something outside this run",
                              "run/steps/work/outputs/where is left out: it names beta"});
}

TEST_CASE("an unfinished run has no end in its bundle", "[run_record]") {
  PackedRunOf run;
  run.status.ended.reset();
  run.record();
  CHECK(Json::parse(run.text("run/run.json")).at("ended").is_null());
}

TEST_CASE("a job without numbers and outputs adds no file", "[run_record]") {
  PackedRunOf run;
  fs::remove(run.directory / "steps/work/outputs");
  fs::remove_all(run.directory / "steps/work/checkpoints");
  run.record();
  CHECK(run.names().empty());
}

TEST_CASE("a file whose name is private stays behind", "[run_record]") {
  PackedRunOf run;
  run.write("steps/work/checkpoints/of-alpha3/on beta12", "x");
  run.record();
  CHECK(std::count(run.left_out.begin(), run.left_out.end(),
                   "run/steps/work/checkpoints/of-alpha3/on beta12 is left out: it names beta") ==
        1);
}
