#include "engine/share/packed_results.h"

#include "base/file.h"
#include "engine/plan/run_directory.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/parsed.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using test::TempDir;

namespace fs = std::filesystem;

namespace {

constexpr const char* kWorkflow = R"(name: w
params: {rates: [1, 2]}
steps:
  get: {uses: stage, with: {sources: [{url: "https://example.org/x"}]}}
  train:
    matrix: {lr: "${{ params.rates }}"}
    run: [train, "${{ steps.get.outputs.path }}", "${{ matrix.lr }}"]
    outputs: {model: model}
  best:
    run: [select, "${{ first(steps.train.outputs.model) }}"]
    outputs: {model: model}
  tell:
    run: [tell, "${{ steps.best.outputs.model }}", "${{ max(steps.train.metrics.accuracy) }}"]
    outputs: {text: text}
)";

Plan packed_plan(const std::string& text, const fs::path& folder) {
  NothingKnown nothing;
  FreshFileHashes hashes;
  return make_plan(test::parsed(text, folder), Profile{}, {}, nothing, hashes);
}

/// The unpacked bundle of a run of kWorkflow: fingerprints as its plan has them, and files.
class Unpacked {
 public:
  Unpacked() {
    const Plan plan = packed_plan(kWorkflow, folder.path());
    Json jobs = Json::array();
    for (const PlannedJob& job : plan.jobs) {
      const bool staged = job.name == "get";
      const std::string name = staged ? "path" : job.name == "tell" ? "text" : "model";
      const std::string path = staged ? "outputs" : "outputs/" + name;
      Json one = {{"job", job.name},
                  {"state", "succeeded"},
                  {"started", "2026-01-01T00:00:01.000Z"},
                  {"ended", "2026-01-01T00:00:02.000Z"},
                  {"fingerprint", ""},
                  {"metrics", {{"accuracy", 0.5}}}};
      one["outputs"][name] = {
          {"path", path}, {"value", nullptr}, {"sha256", "hash of " + job.name}};
      if (!staged) {
        const fs::path file =
            folder.write(job_directory(fs::path("run"), job.name) / path, "of " + job.name + "\n");
        one["result"] = {{"trees", {{"outputs", hash_of_tree(file.parent_path(), "outputs")}}},
                         {"links", Json::object()},
                         {"folders", Json::array()}};
      }
      jobs.push_back(std::move(one));
    }
    record = {{"run", "w-0123abcd"},
              {"dlflow", "0.1.0"},
              {"started", "2026-01-01T00:00:00.000Z"},
              {"jobs", std::move(jobs)}};
    sign();
  }

  Json& job(const std::string& name) {
    for (Json& each : record["jobs"]) {
      if (each["job"] == name) return each;
    }
    FAIL("no job " + name);
    return record;
  }

  /// Gives each job the fingerprint that it has with what the record says now.
  void sign() {
    const Plan plan = packed_plan(kWorkflow, folder.path());
    for (uint32_t number = 0; number < plan.jobs.size(); ++number) {
      const auto left = [&](uint32_t parent) {
        const Json& json = job(plan.jobs[parent].name);
        KnownResult known;
        known.directory = "/elsewhere";
        for (const auto& [name, output] : json.at("outputs").items()) {
          known.outputs[name] = {{"value", "/elsewhere/" + output.at("path").get<std::string>()},
                                 {"sha256", output.at("sha256")}};
        }
        known.metrics = json.at("metrics");
        known.fingerprint = json.at("fingerprint");
        return as_parent(plan, parent, known);
      };
      const PlannedJob& planned = plan.jobs[number];
      job(planned.name)["fingerprint"] = fingerprint(
          fingerprint_base(plan, number), (*plan.steps[planned.step].elements)[planned.element],
          parents_as_seen(plan, number, left));
    }
  }

  PackedResults read(const std::string& text = kWorkflow) {
    folder.write("run/run.json", record.dump());
    FreshFileHashes hashes;
    return read_packed_results(folder.path(), packed_plan(text, folder.path()), hashes);
  }

  std::string refusal() {
    return test::error_of([&] { read(); });
  }

  TempDir folder;
  Json record;
};

using PackedNames = std::vector<std::string>;

PackedNames packed_names(const PackedResults& results) {
  PackedNames list;
  for (const auto& [job, result] : results.by_job) list.push_back(result.known.job);
  return list;
}

}  // namespace

TEST_CASE("results stand for the jobs of the bundle's own workflow", "[packed_results]") {
  Unpacked bundle;
  PackedResults results = bundle.read();
  CHECK(results.run == "w-0123abcd");
  CHECK(results.refused.empty());
  CHECK(packed_names(results) == PackedNames{"train[lr=1]", "train[lr=2]", "best", "tell"});
  const PackedResult& best = results.by_job.at(3);
  CHECK(best.known.outputs.at("model").at("value") ==
        (bundle.folder.path() / "run/steps/best/outputs/model").string());
  CHECK(best.known.metrics == Json{{"accuracy", 0.5}});
}

TEST_CASE("a fingerprint that is not the job's own is no result's", "[packed_results]") {
  Unpacked bundle;
  SECTION("edited") { bundle.job("best")["fingerprint"] = std::string(64, '0'); }
  SECTION("of another job") {
    bundle.job("best")["fingerprint"] = bundle.job("tell")["fingerprint"];
  }
  SECTION("none") { bundle.job("best")["fingerprint"] = ""; }
  const PackedResults results = bundle.read();
  CHECK(packed_names(results) == PackedNames{"train[lr=1]", "train[lr=2]", "tell"});
  REQUIRE(results.refused.size() == 1);
  CHECK(results.refused.front().starts_with("best: here it would not run with the same"));
}

TEST_CASE("what a job's parents left counts, though it is not in the bundle", "[packed_results]") {
  Unpacked bundle;
  SECTION("the hash of staged data") {
    bundle.job("get")["outputs"]["path"]["sha256"] = "other data";
    CHECK(packed_names(bundle.read()) == PackedNames{"best", "tell"});
  }
  SECTION("a metric that a job refers to") {
    bundle.job("train[lr=2]")["metrics"]["accuracy"] = 0.75;
    CHECK(packed_names(bundle.read()) == PackedNames{"train[lr=1]", "train[lr=2]", "best"});
  }
  SECTION("the element that a parent selected") {
    const std::string text = std::string(kWorkflow) +
                             "  say: {run: [say, \"${{ steps.train.matrix.lr }}\"], needs: [best], "
                             "outputs: {text: text}}\n";
    bundle.job("train[lr=2]")["outputs"]["model"]["matrix"] = {{"lr", 7}};
    CHECK(packed_names(bundle.read(text)) ==
          PackedNames{"train[lr=1]", "train[lr=2]", "best", "tell"});
  }
  SECTION("that it failed") {
    bundle.job("train[lr=2]")["state"] = "failed";
    CHECK(packed_names(bundle.read()) == PackedNames{"train[lr=1]", "train[lr=2]"});
  }
}

TEST_CASE("what a command without outputs did is in no bundle", "[packed_results]") {
  Unpacked bundle;
  bundle.job("tell")["outputs"] = Json::object();
  bundle.sign();
  const PackedResults results = bundle.read();
  CHECK(packed_names(results) == PackedNames{"train[lr=1]", "train[lr=2]", "best"});
  CHECK(results.refused == PackedNames{"tell: what it does is elsewhere"});
}

TEST_CASE("a workflow with other parameters has other jobs", "[packed_results]") {
  Unpacked bundle;
  std::string text = kWorkflow;
  text.replace(text.find("[1, 2]"), 6, "[1, 3]");
  CHECK(packed_names(bundle.read(text)) == PackedNames{"train[lr=1]"});
}

TEST_CASE("paths and links that lead out of a result are refused", "[packed_results][attack]") {
  Unpacked bundle;
  Json& best = bundle.job("best");
  Json& output = best["outputs"]["model"];
  Json& result = best["result"];
  SECTION("a path upwards") { output["path"] = "outputs/../../../x"; }
  SECTION("an absolute path") { output["path"] = "/etc/passwd"; }
  SECTION("another folder of the job") { output["path"] = "attempt-1/events.jsonl"; }
  SECTION("a value elsewhere") {
    output.erase("path");
    output["value"] = "/etc/passwd";
  }
  SECTION("a tree upwards") { result["trees"][".."] = "h"; }
  SECTION("a link's name") { result["links"]["outputs/../x"] = "model"; }
  SECTION("an absolute target") { result["links"]["outputs/x"] = "/etc"; }
  SECTION("a target out of its tree") { result["links"]["outputs/x"] = "../checkpoints/x"; }
  SECTION("a target that goes up later") { result["links"]["outputs/x"] = "d/../../x"; }
  SECTION("a target that goes down and up") { result["links"]["outputs/x"] = "d/../y"; }
  SECTION("a target that is none") { result["links"]["outputs/x"] = ""; }
  SECTION("an empty folder") { result["folders"] = {"outputs/a/../../../x"}; }
  SECTION("a control character") { result["folders"] = {"outputs/a\nb"}; }
  CHECK(bundle.refusal().starts_with("run/run.json is damaged: "));
}

TEST_CASE("a record that is none is refused", "[packed_results][attack]") {
  Unpacked bundle;
  SECTION("a job twice") { bundle.record["jobs"].push_back(bundle.job("best")); }
  SECTION("no jobs") { bundle.record.erase("jobs"); }
  SECTION("a state") { bundle.job("best")["state"] = "done"; }
  SECTION("a metric") { bundle.job("best")["metrics"]["x"] = "much"; }
  SECTION("a matrix") { bundle.job("best")["outputs"]["model"]["matrix"] = 3; }
  SECTION("a time") { bundle.job("best")["ended"] = "yesterday"; }
  SECTION("a hash") { bundle.job("best")["result"]["trees"]["outputs"] = 3; }
  CHECK(bundle.refusal() != "none");
}
