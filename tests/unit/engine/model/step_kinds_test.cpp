#include "engine/model/step_kinds.h"

#include <regex>
#include <set>

#include "engine/model/forms.h"
#include "engine/model/profile_shape.h"
#include "engine/model/workflow_shape.h"
#include "tests/unit/engine/model/mistakes_of.h"

using namespace dlflow;
using test::mistakes_of;

TEST_CASE("a kind that computes on GPUs asks for them", "[mistakes]") {
  const auto train = [](const std::string& device, const std::string& resources) {
    return mistakes_of("params: {on: cuda, gpus: 0}\nsteps:\n  t:\n    uses: train\n" + resources +
                       "    with: {model: m, data: d, epochs: 1, lr: 1, device: " + device + "}\n");
  };
  const std::string refusal =
      "error: with.device of step 't' is cuda, which needs resources: {gpus_per_rank: 1}";
  CHECK(train("cuda", "") == "w.yaml:5:57: " + refusal);
  CHECK(train("cuda", "    resources: {ranks: 2}\n") == "w.yaml:6:57: " + refusal);
  CHECK(train("\"${{ params.on }}\"", "    resources: {gpus_per_rank: \"${{ params.gpus }}\"}\n") ==
        "w.yaml:6:57: " + refusal);
  CHECK(train("cuda", "    resources: {gpus_per_rank: 2}\n") == "");
  CHECK(train("cpu", "") == "");
  CHECK(train("cuda",
              "    matrix: {gpus: [0, 1]}\n"
              "    resources: {gpus_per_rank: \"${{ matrix.gpus }}\"}\n") == "");
}

namespace {

/// Checks that every key in `shape` has a description: a sentence without its full stop, which
/// names the thing ("Number of tries") instead of asking for it ("How often the job is tried").
void check_descriptions(const Shape& shape) {
  static const std::regex riddle("(What|Who|Whatever|Whoever|How (often|many|much)) .*");
  for (const Field& field : shape.fields) {
    INFO(field.name << ": " << field.description);
    CHECK_FALSE(field.description.empty());
    CHECK_FALSE(field.description.ends_with('.'));
    CHECK_FALSE(std::regex_match(field.description, riddle));
    check_descriptions(field.shape);
  }
  for (const Shape& part : shape.parts) check_descriptions(part);
}

}  // namespace

TEST_CASE("the entry of every step kind is complete", "[kinds]") {
  std::set<std::string> names;
  for (const StepKind& kind : step_kinds()) {
    INFO(kind.name);
    CHECK(kNameForm.accepts(kind.name));
    CHECK(names.insert(kind.name).second);
    CHECK(find_step_kind(kind.name) == &kind);
    CHECK_FALSE(kind.description.empty());
    CHECK((kind.program.empty() || kind.program == "dlflow-" + kind.name));
    CHECK(kind.version >= 1);
    CHECK(kind.with.type == Shape::Type::Object);
    check_descriptions(kind.with);
    check_descriptions(object(kind.outputs));
  }
}

TEST_CASE("every key of workflows and profiles has its description", "[kinds]") {
  check_descriptions(workflow_shape());
  check_descriptions(step_shape());
  check_descriptions(profile_shape());
}

TEST_CASE("the entry of a step kind names only its own keys", "[kinds]") {
  for (const StepKind& kind : step_kinds()) {
    std::vector<std::string> keys = kind.neutral;
    for (const auto& [key, other] : kind.alternatives) keys.insert(keys.end(), {key, other});
    for (const Demand& demand : kind.demands) keys.push_back(demand.key);
    for (const std::string& key : {kind.sources, kind.model}) {
      if (!key.empty()) keys.push_back(key);
    }
    for (const std::string& key : keys) {
      INFO(kind.name << ": " << key);
      CHECK(find_field(kind.with, key) != nullptr);
    }
  }
}

TEST_CASE("a resource that a step kind demands can be asked for", "[kinds]") {
  const Json resources = to_json(Resources());
  for (const StepKind& kind : step_kinds()) {
    for (const std::string& name : kind.decisive_resources(Json::object())) {
      CHECK(resources.contains(name));
    }
    for (const Demand& demand : kind.demands) {
      INFO(kind.name << ": " << demand.key);
      CHECK(resources.contains(demand.resource));
      CHECK(fits(demand.value, find_field(kind.with, demand.key)->shape));
      CHECK(demand.file.empty() == demand.advice.empty());
    }
  }
}

TEST_CASE("a step saves if its kind saves or if it has checkpoint:", "[kinds]") {
  const CheckpointPolicy policy;
  CHECK(can_save("train", std::nullopt));
  CHECK(can_save("", policy));
  CHECK_FALSE(can_save("", std::nullopt));
  CHECK_FALSE(can_save("evaluate", std::nullopt));
}

namespace {

/// Whether a train step may have `entry` in its `with:`, beside what it needs.
bool train_takes(const std::string& key, const std::string& value) {
  std::string with;
  for (const auto& [name, usual] : std::vector<std::pair<std::string, std::string>>{
           {"model", "m"}, {"data", "d"}, {"epochs", "1"}, {"lr", "1"}}) {
    if (name != key) with += name + ": " + usual + ", ";
  }
  return mistakes_of("steps:\n  t:\n    uses: train\n    with: {" + with + key + ": " + value +
                     "}\n") == "";
}

}  // namespace

TEST_CASE("numbers of training have their documented bounds", "[kinds]") {
  const auto [key, good, bad] = GENERATE(table<std::string, std::string, std::string>({
      {"epochs", "1", "0"},
      {"batch", "1", "0"},
      {"batch_per_rank", "1", "0"},
      {"lr", "1e-9", "0"},
      {"momentum", "0", "-0.1"},
      {"momentum", "0.99", "1"},
      {"weight_decay", "0", "-0.1"},
      {"clip_norm", "0.1", "0"},
      {"accumulate", "1", "0"},
      {"base_batch", "1", "0"},
      {"label_smoothing", "0", "-0.1"},
      {"label_smoothing", "0.99", "1"},
      {"warmup_epochs", "0", "-1"},
      {"seed", "0", "-1"},
      {"validation", "0", "-1"},
      {"timeline", "0", "-1"},
      {"precision", "{leaves: 1}", "{leaves: 0}"},
      {"gradients", "{density: 1e-9}", "{density: 0}"},
      {"gradients", "{density: 1}", "{density: 1.1}"},
      {"gradients", "{warmup_epochs: 0}", "{warmup_epochs: -1}"},
      {"gradients", "{rank: 1}", "{rank: 0}"},
      {"gradients", "{clip: 0}", "{clip: -1}"},
      {"optimizer", "{kind: adam, betas: [0, 0.99]}", "{kind: adam, betas: [0, 1]}"},
      {"optimizer", "{kind: adam, betas: [0.5, 0.5]}", "{kind: adam, betas: [0.5]}"},
      {"optimizer", "{kind: adam, betas: [0.5, 0.5]}", "{kind: adam, betas: [0.5, 0.5, 0.5]}"},
      {"optimizer", "{kind: adam, eps: 0}", "{kind: adam, eps: -1}"},
      {"optimizer", "{kind: lars, trust: 0}", "{kind: lars, trust: -1}"},
      {"cooperation", "{kind: local_sgd, every: 1}", "{kind: local_sgd, every: 0}"},
      {"cooperation", "{kind: local_sgd, synchronous_epochs: 0}",
       "{kind: local_sgd, synchronous_epochs: -1}"},
      {"cooperation", "{kind: elastic, rate: 1}", "{kind: elastic, rate: 1.1}"},
      {"cooperation", "{kind: parameter_server, servers: 1}",
       "{kind: parameter_server, servers: 0}"},
      {"cooperation", "{kind: parameter_server, staleness: 0}",
       "{kind: parameter_server, staleness: -1}"},
      {"normalize", "{mean: [1], std: [1]}", "{mean: [], std: [1]}"},
      {"normalize", "{mean: 1, std: 0.1}", "{mean: 1, std: 0}"},
      {"normalize", "{mean: 1, std: [0.1]}", "{mean: 1, std: [0]}"},
      {"normalize", "{mean: 1, std: [1]}", "{mean: 1, std: []}"},
  }));
  INFO(key << ": " << good << " and " << bad);
  CHECK(train_takes(key, good));
  CHECK_FALSE(train_takes(key, bad));
}

TEST_CASE("values left out of training have their documented defaults", "[kinds]") {
  const auto left_out = [](const char* key) {
    for (const Field& field : find_step_kind("train")->with.fields) {
      if (field.name == key) return field.fallback;
    }
    return Json();
  };
  CHECK(left_out("accumulate") == 1);
  CHECK(left_out("warmup_epochs") == 0);
  CHECK(left_out("seed") == 0);
  CHECK(left_out("timeline") == 0);
  CHECK(find_step_kind("stage")->with.fields.at(1).fallback == 4);
}

TEST_CASE("exact training depends on the ranks only where they change its result", "[kinds]") {
  using Keys = std::vector<std::string>;
  const auto decisive = [](const Json& with) {
    return find_step_kind("train")->decisive_resources(with);
  };
  const Keys cores = {"cpus_per_rank"};
  const Keys places = {"ranks", "ranks_per_node", "cpus_per_rank"};
  CHECK(decisive(Json::object()) == cores);
  CHECK(decisive({{"precision", {{"reduction", "exact"}}}}) == cores);
  CHECK(decisive({{"precision", {{"reduction", "fast"}}}}) == places);
  CHECK(decisive({{"precision", "${{ params.p }}"}}) == places);
  CHECK(decisive({{"cooperation", {{"kind", "synchronous"}}}}) == cores);
  CHECK(decisive({{"cooperation", {{"kind", "gossip"}}}}) == places);
  CHECK(decisive({{"cooperation", "${{ params.c }}"}}) == places);
  CHECK(decisive({{"batch_per_rank", 32}}) == Keys{"ranks", "cpus_per_rank"});
  CHECK(find_step_kind("evaluate")->decisive_resources({}) == cores);
  CHECK(find_step_kind("stage")->decisive_resources({}).empty());
}
