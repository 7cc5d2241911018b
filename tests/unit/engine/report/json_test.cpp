#include "engine/report/json.h"

#include "tests/support/catch.h"
#include "tests/support/report_values.h"

using namespace dlflow;
using namespace dlflow::test;
using namespace std::chrono_literals;

TEST_CASE("status as JSON has all known values of a job", "[json]") {
  RunStatus status;
  status.run = "demo-7f3a";
  status.workflow = "demo";
  status.profile = "alpha";
  status.state = RunState::Failed;
  status.started = kStart;
  status.ended = kStart + 62s;
  status.directory = "/runs/demo-7f3a";
  status.problem = "squeue: no answer";
  status.unaccounted = "disabled";
  JobRow job;
  job.step = "train";
  job.element = "lr=0.1";
  job.job = "train[lr=0.1]";
  job.state = JobState::Failed;
  job.attempt = 2;
  job.backend_id = "4411";
  job.node = "n2";
  job.started = kStart + 1s;
  job.ended = kStart + 61s;
  job.exit = 3;
  job.reason = "exit 3";
  job.outputs = {{"model", "/runs/model"}};
  job.metrics = {{"loss", 0.5}};
  job.directory = "/runs/demo-7f3a/steps/train/lr=0.1";
  job.limit = 20min;
  job.limit_since = from_rfc3339("2026-11-21T08:00:31.000Z");
  job.asked = Resources{
      .ranks = 2, .cpus_per_rank = 3, .gpus_per_rank = 1, .memory_bytes = 4096, .walltime = 20min};
  job.usage = JobUsage{.elapsed = 1500ms, .cpu_time = 4500ms, .cpus = 0, .memory_bytes = 1024};
  status.jobs = {job};
  status.idle = 2s;
  CHECK(to_json(status) == Json::parse(R"({
    "run": "demo-7f3a", "workflow": "demo", "profile": "alpha", "state": "failed",
    "started": "2026-11-21T08:00:00.000Z", "ended": "2026-11-21T08:01:02.000Z", "idle_s": 2,
    "directory": "/runs/demo-7f3a", "problem": "squeue: no answer", "unaccounted": "disabled",
    "steps": [{
      "name": "train", "element": "lr=0.1", "state": "failed", "attempt": 2, "backend_id": "4411",
      "node": "n2", "started": "2026-11-21T08:00:01.000Z", "ended": "2026-11-21T08:01:01.000Z",
      "exit": 3, "reason": "exit 3", "outputs": {"model": "/runs/model"}, "metrics": {"loss": 0.5},
      "directory": "/runs/demo-7f3a/steps/train/lr=0.1", "limit_s": 1200,
      "limit_since": "2026-11-21T08:00:31.000Z",
      "resources": {"ranks": 2, "cpus_per_rank": 3, "gpus_per_rank": 1, "memory_bytes": 4096,
                    "walltime_s": 1200},
      "used": {"elapsed_s": 1.5, "cpu_s": 4.5, "cpu_efficiency": 0.5, "memory_bytes": 1024,
               "memory_efficiency": 0.25, "energy_j": null}}]})"));
}

TEST_CASE("unknown values of a job are null, and its outputs and metrics are objects", "[json]") {
  RunStatus status;
  JobRow job;
  job.step = "train";
  job.outputs = Json();
  job.metrics = Json();
  status.jobs = {job};
  const auto shown = [&] { return to_json(status).at("steps").at(0); };
  for (const char* key : {"element", "backend_id", "node", "started", "ended", "exit", "reason",
                          "limit_s", "limit_since", "resources", "used"}) {
    CHECK(shown().at(key).is_null());
  }
  CHECK(shown().at("outputs") == Json::object());
  CHECK(shown().at("metrics") == Json::object());
  CHECK(to_json(status).at("problem").is_null());
  CHECK(to_json(status).at("ended").is_null());

  status.jobs[0].asked = Resources();
  status.jobs[0].usage = JobUsage();
  CHECK(shown().at("resources").at("memory_bytes").is_null());
  CHECK(shown().at("resources").at("walltime_s").is_null());
  for (const auto& [key, value] : shown().at("used").items()) CHECK(value.is_null());
}

TEST_CASE("a run in the list as JSON counts its jobs by state", "[json]") {
  RunSummary summary;
  summary.run = "demo-7f3a";
  summary.workflow = "demo";
  summary.profile = "local";
  summary.state = RunState::Succeeded;
  summary.started = kStart;
  summary.ended = kStart + 2s;
  summary.directory = "/runs/demo-7f3a";
  summary.jobs = {{JobState::Succeeded, 3}, {JobState::Cached, 1}};
  CHECK(to_json(summary) == Json::parse(R"({
    "run": "demo-7f3a", "workflow": "demo", "profile": "local", "state": "succeeded",
    "started": "2026-11-21T08:00:00.000Z", "ended": "2026-11-21T08:00:02.000Z",
    "directory": "/runs/demo-7f3a", "jobs": {"succeeded": 3, "cached": 1}})"));
}

TEST_CASE("an explanation as JSON has the verdict and each difference", "[json]") {
  Explanation explanation{.job = "train",
                          .verdict = Action::Run,
                          .from = "demo-7f3a",
                          .differences = {{"parameter epochs", "3", "30"}, {"image", "", "cuda"}},
                          .reason = "parameter epochs: 3 → 30"};
  CHECK(to_json(explanation) == Json::parse(R"({
    "job": "train", "verdict": "runs", "from": "demo-7f3a",
    "reason": "parameter epochs: 3 → 30",
    "differences": [{"what": "parameter epochs", "before": "3", "now": "30"},
                    {"what": "image", "before": "", "now": "cuda"}]})"));
  explanation.verdict = Action::Reuse;
  CHECK(to_json(explanation).at("verdict") == "reused");
  explanation.verdict = Action::DecideLater;
  CHECK(to_json(explanation).at("verdict") == "decided later");
  explanation.from.clear();
  CHECK(to_json(explanation).at("from").is_null());
}

TEST_CASE("a plan as JSON lists what each job waits for", "[json]") {
  Plan plan;
  plan.workflow.name = "demo";
  plan.profile.name = "local";
  for (const char* name : {"data", "train"}) {
    plan.workflow.steps.emplace_back();
    plan.workflow.steps.back().name = name;
  }
  plan.jobs.resize(3);
  plan.jobs[0].name = "data[shard=1]";
  plan.jobs[1].name = "data[shard=2]";
  plan.jobs[2].name = "train";
  plan.jobs[2].step = 1;
  plan.jobs[2].action = Action::DecideLater;
  plan.jobs[2].cause = Cause::WaitsForParents;
  plan.graph = Graph({{0, 2}, {2, 1}}, {{}, {StepEdge{.parent = 0, .partner = {}}}});
  CHECK(to_json(plan) == Json::parse(R"({
    "workflow": "demo", "profile": "local", "jobs": [
      {"job": "data[shard=1]", "name": "data", "element": "shard=1", "action": "runs",
       "reason": "there is no earlier result", "needs": []},
      {"job": "data[shard=2]", "name": "data", "element": "shard=2", "action": "runs",
       "reason": "there is no earlier result", "needs": []},
      {"job": "train", "name": "train", "element": null, "action": "decided later",
       "reason": "decided once its parents are done",
       "needs": ["data[shard=1]", "data[shard=2]"]}]})"));
  std::vector<Explanation> answers(3);
  answers[1].verdict = Action::Reuse;
  answers[1].reason = "nothing relevant changed";
  const Json explained = to_json(plan, answers)["jobs"][1];
  CHECK(explained["action"] == "reused");
  CHECK(explained["reason"] == "nothing relevant changed");
}
