#include "engine/plan/fingerprint.h"

#include "tests/support/catch.h"
#include "tests/support/parsed.h"

using namespace dlflow;
using test::parsed;

namespace {

/// The base of the first element of the first step of `text`.
Json base_of(const std::string& text) {
  const Workflow workflow = parsed(text);
  const Step& step = workflow.steps.front();
  const Json visible = visible_params(step, workflow.params, {});
  return fingerprint_base(workflow, step, matrix_elements(step.matrix).front(), visible, {});
}

constexpr const char* kReference = R"(
name: w
params: {epochs: 3, unused: 1}
steps:
  a:
    run: ["./train", "--epochs", "${{ params.epochs }}"]
    env: {SEED: 7}
)";

/// kReference with one piece of text replaced.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = kReference;
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

Json visible(const std::string& script, const std::vector<std::string>& texts = {}) {
  Step step;
  step.run = Template(Json(script));
  return visible_params(step, {{"lr", 0.1}, {"lr_decay", 2}, {"warm-up", 5}}, texts);
}

ParentResult parent(const std::string& step, Json outputs, Json metrics = Json::object()) {
  return {step, std::move(outputs), std::move(metrics)};
}

}  // namespace

TEST_CASE("what does not change the result does not change the fingerprint", "[fingerprint]") {
  const auto& [from, to] = GENERATE(table<std::string, std::string>(
      {{"name: w", "name: other  # a comment"},
       {"unused: 1", "unused: 2"},
       {"  a:\n", "  b:\n"},
       {"{SEED: 7}", "{\"SEED\":    7}"},
       {"{SEED: 7}", "{SEED: 7}\n    resources: {ranks: 4, memory: 2GiB, walltime: 20m}"},
       {"{SEED: 7}", "{SEED: 7}\n    retry: {attempts: 5}"},
       {"\"${{ params.epochs }}\"", "3"}}));
  INFO(from << " -> " << to);
  CHECK(base_of(changed(from, to)) == base_of(kReference));
}

TEST_CASE("where a step reads its data does not change the fingerprint", "[fingerprint]") {
  const std::string evaluate =
      "name: w\nsteps:\n  a:\n    uses: evaluate\n    with: {checkpoint: c, data: d";
  CHECK(base_of(evaluate + ", scratch: true}\n") == base_of(evaluate + "}\n"));
  CHECK(base_of(evaluate + "}\n").at("with") ==
        Json{{"batch", 256}, {"checkpoint", "c"}, {"data", "d"}});
}

TEST_CASE("what an expression that waits for a parent mentions besides is in the fingerprint",
          "[fingerprint]") {
  const std::string text = R"(
name: w
params: {p: 1}
steps:
  b:
    uses: stage-out
    matrix: {fold: [0, 1]}
    with: {from: "${{ format('{0}/{1}-{2}', steps.a.outputs.d, matrix.fold, params.p) }}", to: "file:///x/"}
  a: {run: [make], outputs: {d: d}}
)";
  const auto base = [](const std::string& of, size_t element) {
    const Workflow workflow = parsed(of);
    const Step& step = workflow.steps.front();
    return fingerprint_base(workflow, step, matrix_elements(step.matrix)[element], {}, {});
  };
  std::string other = text;
  other.replace(other.find("p: 1"), 4, "p: 2");
  CHECK(base(text, 0) != base(text, 1));
  CHECK(base(text, 0) != base(other, 0));
  CHECK(base(text, 0).at("values") == Json{{"matrix.fold", 0}, {"params.p", 1}});

  const Workflow workflow = parsed(text);
  Context known;
  known.params = &workflow.params;
  const Json element = {{"fold", 0}};
  known.matrix = &element;
  CHECK(late_params(workflow.steps.front(), known) == Json{{"p", 1}});
  CHECK_FALSE(mentions_run(workflow.steps.front()));
}

TEST_CASE("who mentions the run has a result of its own", "[fingerprint]") {
  const Workflow workflow =
      parsed("name: w\nsteps:\n  a: {run: [echo, \"${{ run.id }}\"]}\n  b: {run: [echo, x]}\n");
  CHECK(mentions_run(workflow.steps[0]));
  CHECK_FALSE(mentions_run(workflow.steps[1]));
}

TEST_CASE("what may change the result changes the fingerprint", "[fingerprint]") {
  const auto& [from, to] = GENERATE(table<std::string, std::string>(
      {{"epochs: 3", "epochs: 4"},
       {"./train", "./train2"},
       {"SEED: 7", "SEED: 8"},
       {"SEED: 7", "SEED: 7, MORE: 1"},
       {"{SEED: 7}", "{SEED: 7}\n    require: {accuracy: \">= 0.9\"}"},
       {"{SEED: 7}", "{SEED: 7}\n    outputs: {model: model.bin}"},
       {"{SEED: 7}", "{SEED: 7}\n    secrets: [TOKEN]"},
       {"{SEED: 7}", "{SEED: 7}\n    matrix: {lr: [1]}"},
       {"{SEED: 7}", "{SEED: 7}\n    if: ${{ params.epochs > 2 }}"}}));
  INFO(from << " -> " << to);
  CHECK(base_of(changed(from, to)) != base_of(kReference));
}

TEST_CASE("the same text gives the same fingerprint on every day", "[fingerprint]") {
  // Pins the canonical form: a change here makes all earlier results unknown.
  CHECK(
      base_of(kReference).dump() ==
      R"({"command":["./train","--epochs",3],"environment":{"SEED":7},"kind":"run","version":1})");
  CHECK(fingerprint(R"({"kind":"run"})", {}) ==
        "78eec4426114b612c414c0602dfefe269663c92230da2bbdb6cb7e1473edb0e0");
}

TEST_CASE("content of files counts under the name the workflow gives them", "[fingerprint]") {
  const Workflow workflow = parsed(kReference);
  const auto with_file = [&](const std::string& hash) {
    return fingerprint_base(workflow, workflow.steps[0], Json::object(), Json::object(),
                            {{"models/lenet.yaml", hash}});
  };
  CHECK(with_file("aa").at("files") == Json{{"models/lenet.yaml", "aa"}});
  CHECK(with_file("aa") != with_file("bb"));
}

TEST_CASE("parents count by the hashes of their outputs, in order, not by where these lie",
          "[fingerprint]") {
  const auto output = [](const char* path, const char* hash) {
    return Json{{"path", {{"value", path}, {"sha256", hash}}}};
  };
  const std::vector<ParentResult> here = {parent("a", output("/x", "11")),
                                          parent("b", output("/y", "22"))};
  const std::vector<ParentResult> there = {parent("a", output("/elsewhere", "11")),
                                           parent("b", output("/y", "22"))};
  const std::vector<ParentResult> other = {parent("a", output("/x", "33")),
                                           parent("b", output("/y", "22"))};
  const std::vector<ParentResult> swapped = {here[1], here[0]};
  CHECK(fingerprint("{}", here) == fingerprint("{}", there));
  CHECK(fingerprint("{}", here) != fingerprint("{}", other));
  CHECK(fingerprint("{}", here) != fingerprint("{}", swapped));
  CHECK(fingerprint("{}", here) != fingerprint("{}", {}));
}

TEST_CASE("a parent's metric counts only for a step that refers to it", "[fingerprint]") {
  const auto with_loss = [](double loss) {
    return std::vector<ParentResult>{parent("a", Json(), {{"loss", loss}, {"seconds", 10 * loss}})};
  };
  CHECK(fingerprint("{}", with_loss(1)) == fingerprint("{}", with_loss(2)));
  const std::string refers = R"({"metrics":{"a":["loss"]}})";
  CHECK(fingerprint(refers, with_loss(1)) != fingerprint(refers, with_loss(2)));
  const std::string other = R"({"metrics":{"a":["accuracy"]}})";
  CHECK(fingerprint(other, with_loss(1)) == fingerprint(other, with_loss(2)));
}

TEST_CASE("a command sees the parameters whose variable it mentions", "[fingerprint]") {
  CHECK(visible("echo hello") == Json::object());
  CHECK(visible("echo $DLFLOW_PARAM_LR") == Json{{"lr", 0.1}});
  CHECK(visible("echo ${DLFLOW_PARAM_WARM_UP}") == Json{{"warm-up", 5}});
  CHECK(visible("echo $DLFLOW_PARAM_LR_DECAY") == Json{{"lr_decay", 2}});
  CHECK(visible("./a.py", {"x = os.environ['DLFLOW_PARAM_LR']"}) == Json{{"lr", 0.1}});
}

TEST_CASE("a command that composes the names of variables sees all parameters", "[fingerprint]") {
  CHECK(visible("env | grep DLFLOW_PARAM_").size() == 3);
  CHECK(visible("eval echo \\$DLFLOW_PARAM_L$x").size() == 3);
}

TEST_CASE("a step kind gets its values through with alone", "[fingerprint]") {
  Step step;
  step.uses = "train";
  step.with = Template(Json{{"note", "DLFLOW_PARAM_LR"}});
  CHECK(visible_params(step, {{"lr", 1}}, {}) == Json::object());
}
