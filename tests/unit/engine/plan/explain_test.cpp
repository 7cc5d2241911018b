#include "engine/plan/explain.h"

#include "tests/support/catch.h"
#include "tests/support/known_by_fingerprint.h"
#include "tests/support/parsed.h"

using namespace dlflow;
using test::parsed;

namespace {

constexpr const char* kText = R"(
name: mnist
params: {epochs: 3}
steps:
  data:
    run: ./fetch
    outputs: {path: data}
  train:
    run: [./train, "${{ steps.data.outputs.path }}"]
    env: {EPOCHS: "${{ params.epochs }}"}
    outputs: {checkpoints: c}
  best:
    run: [./best, "${{ steps.train.outputs.checkpoints }}"]
    outputs: {checkpoint: c}
  evaluate:
    run: [./evaluate, "${{ steps.best.outputs.checkpoint }}"]
  after:
    run: ./after
    needs: [evaluate]
)";

Plan plan_of(const Workflow& workflow, KnownResults& known) {
  FreshFileHashes hashes;
  Plan plan = make_plan(workflow, Profile(), PlanOptions(), known, hashes);
  plan.run = "mnist-0000";
  plan.directory = "/runs/mnist-0000";
  return plan;
}

/// One earlier run, in memory.
class OneRun : public History {
 public:
  explicit OneRun(const Workflow& workflow) {
    NothingKnown nothing;
    plan_ = plan_of(workflow, nothing);
    known.learn(plan_);
  }

  std::vector<EarlierBase> earlier(const std::string&, const std::string&, const JobName& job,
                                   const std::string&) override {
    auto number = find_job(plan_, job);
    if (!number && !instead.empty()) number = find_job(plan_, instead);
    if (!number) return {};
    return {{plan_.run, fingerprint_base(plan_, *number)}};
  }

  std::string maker(const std::string& run, const JobName&) override {
    return made_by.empty() ? run : made_by;
  }

  std::string refusal(const Fingerprint& fingerprint, const std::string&, const JobName&) override {
    return known.find(fingerprint, {}) ? refused : "";
  }

  test::KnownByFingerprint known;
  std::string refused;
  std::string instead;  ///< the job whose base it has for unknown ones; may be empty
  std::string made_by;  ///< the run that made its results; empty: this one

 private:
  Plan plan_;
};

std::map<std::string, std::string> reasons(const Plan& plan, History& history) {
  std::map<std::string, std::string> result;
  for (const Explanation& explanation : explain(plan, history)) {
    result[explanation.job] = explanation.reason;
  }
  return result;
}

using Reasons = std::map<std::string, std::string>;

Json base(const char* command) { return {{"kind", "run"}, {"command", command}}; }

}  // namespace

TEST_CASE("a changed value with line breaks is shown on one line", "[explain]") {
  const auto text = [](const char* value) {
    return std::string("name: w\nparams: {x: ") + value +
           "}\nsteps: {a: {run: 'echo $DLFLOW_PARAM_X'}}\n";
  };
  OneRun earlier(parsed(text("1")));
  const Plan plan = plan_of(parsed(text("\"a\\nb\"")), earlier.known);
  CHECK(reasons(plan, earlier) == Reasons{{"a", "parameter x: 1 → a\\nb"}});
}

TEST_CASE("a changed parameter is the reason, and its dependents follow", "[explain]") {
  OneRun earlier(parsed(kText));
  const Plan plan = plan_of(parsed(kText, "/tmp", {"epochs=30"}), earlier.known);
  CHECK(reasons(plan, earlier) == Reasons{{"data", "nothing relevant changed"},
                                          {"train", "parameter epochs: 3 → 30"},
                                          {"best", "depends on train: checkpoints"},
                                          {"evaluate", "depends on best: checkpoint"},
                                          {"after", "depends on evaluate"}});
  const auto explanations = explain(plan, earlier);
  CHECK(explanations[0].verdict == Action::Reuse);
  CHECK(explanations[0].from == "mnist-0000");
  CHECK(explanations[1].verdict == Action::Run);
  CHECK(explanations[1].from == "mnist-0000");  // the run compared with
  CHECK(explanations[1].differences == std::vector<Difference>{{"parameter epochs", "3", "30"}});
  CHECK(explanations[2].verdict == Action::DecideLater);
}

TEST_CASE("a new element is explained by the values that no earlier one has", "[explain]") {
  const auto sweep = [](const char* axes) {
    return parsed(std::string("name: w\nsteps: {a: {run: ./a, matrix: {") + axes + "}}}\n");
  };
  OneRun earlier(sweep("lr: [1], seed: [1, 2]"));
  const auto find = [&](const char* axes) {
    return reasons(plan_of(sweep(axes), earlier.known), earlier);
  };
  earlier.instead = "a[lr=1,seed=1]";
  const Reasons more = find("lr: [1, 3], seed: [1, 2]");
  CHECK(more.at("a[lr=1,seed=2]") == "nothing relevant changed");
  CHECK(more.at("a[lr=3,seed=1]") == "new: no result for lr=3");
  CHECK(more.at("a[lr=3,seed=2]") == "new: no result for lr=3");
  CHECK(find("lr: [1, 3], seed: [1, 4]").at("a[lr=1,seed=4]") == "new: no result for seed=4");
  CHECK(find("lr: [1, 3], seed: [1, 4]").at("a[lr=3,seed=4]") == "new: no result for lr=3,seed=4");
}

TEST_CASE("a result is attributed to the run that made it, not to one that reused it",
          "[explain]") {
  OneRun earlier(parsed(kText));
  earlier.made_by = "mnist-aaaa";
  const auto explanations = explain(plan_of(parsed(kText), earlier.known), earlier);
  CHECK(explanations[0].verdict == Action::Reuse);
  CHECK(explanations[0].from == "mnist-aaaa");
}

TEST_CASE("the number of jobs that a step will list is explained as unknown", "[explain]") {
  const Workflow fan = parsed(R"(
name: w
steps:
  split: {run: ./split, outputs: {parts: p.json}}
  work: {matrix: {part: "${{ steps.split.outputs.parts }}"}, run: ./work}
)");
  OneRun earlier(fan);
  NothingKnown nothing;
  CHECK(reasons(plan_of(fan, nothing), earlier).at("work[part=?]") == "as many as `split` lists");
}

TEST_CASE("without an earlier run every job runs for the first time", "[explain]") {
  OneRun unrelated(parsed("name: x\nsteps: {other: {run: ./x}}\n"));
  NothingKnown nothing;
  for (const Explanation& explanation : explain(plan_of(parsed(kText), nothing), unrelated)) {
    CHECK(explanation.verdict == Action::Run);
    CHECK(explanation.reason == "there is no earlier result");
  }
}

TEST_CASE("unknown packages are the reason to run again", "[explain]") {
  const char* text = "name: w\nsteps: {a: {run: x, environment: {uv: /nowhere}}}\n";
  OneRun earlier(parsed(text));
  CHECK(reasons(plan_of(parsed(text), earlier.known), earlier) ==
        Reasons{{"a",
                 "the packages of its `environment:` are not known: /nowhere/uv.lock was not "
                 "there when the run was planned"}});
}

TEST_CASE("work that runs again without a change has one reason", "[explain]") {
  OneRun earlier(parsed(kText));
  NothingKnown nothing;
  const Plan plan = plan_of(parsed(kText), nothing);
  earlier.refused = "outputs/data is gone";
  CHECK(reasons(plan, earlier).at("data") == "outputs/data is gone");
  earlier.known = {};
  CHECK(reasons(plan, earlier).at("data") ==
        "its parents' results differ from those in mnist-0000");
}

TEST_CASE("differences are named after the parts of a step", "[explain]") {
  Step step;
  step.environment = Template(Json{{"A", "${{ params.a }}"}, {"B", "fixed"}});
  step.with = Template(Json{{"lr", "${{ matrix.lr }}"}, {"data", Json{{"name", "x"}}}});
  const Json before = {{"environment", {{"A", 1}, {"B", 1}}},
                       {"with", {{"lr", 0.1}, {"data", {{"name", "x"}}}}},
                       {"params", {{"seed", 1}}},
                       {"files", {{"a.py", "0123456789"}}},
                       {"image", "sha256:1"}};
  const Json now = {{"environment", {{"A", 2}, {"B", 2}}},
                    {"with", {{"lr", 0.2}, {"data", {{"name", "y"}}}}},
                    {"params", {{"seed", 2}}},
                    {"files", {{"a.py", "9876543210"}}},
                    {"require", {{"accuracy", {{">=", 0.9}}}}}};
  CHECK(differences(before, now, step) ==
        std::vector<Difference>{{"parameter a", "1", "2"},
                                {"variable B", "1", "2"},
                                {"content of a.py", "01234567", "98765432"},
                                {"image", "sha256:1", ""},
                                {"parameter seed", "1", "2"},
                                {"require accuracy.>=", "", "0.9"},
                                {"data.name", "x", "y"},
                                {"matrix lr", "0.1", "0.2"}});
}

TEST_CASE("a changed script is shown by its first changed line", "[explain]") {
  const Step step;
  CHECK(differences(base("cd x\nmake\n"), base("cd x\nmake all\n"), step) ==
        std::vector<Difference>{{"line 2 of the script", "make", "make all"}});
  CHECK(differences(base("cd x\n"), base("cd x\nmake\n"), step) ==
        std::vector<Difference>{{"line 2 of the script", "", "make"}});
  CHECK(differences(base("make"), base("cmake"), step) ==
        std::vector<Difference>{{"command", "make", "cmake"}});
  CHECK(differences(base("make"), base("make"), step).empty());
}

TEST_CASE("of long values, the place where they differ is shown", "[explain]") {
  const std::string same =
      "python3 train.py --data /scratch/somewhere/in/a/folder/data --epochs 30";
  const auto list =
      differences({{"command", {same, "--lr", 0.1}}}, {{"command", {same, "--lr", 0.2}}}, Step{});
  REQUIRE(list.size() == 1);
  CHECK(list[0].before == R"(…0","--lr",0.1])");
  CHECK(list[0].now == R"(…0","--lr",0.2])");
}

TEST_CASE("long values are shortened between characters", "[explain]") {
  const Step step;
  std::string text(58, 'x');
  for (int i = 0; i < 10; ++i) text += "→";
  const auto list = differences(base("a"), base(text.c_str()), step);
  REQUIRE(list.size() == 1);
  CHECK(list[0].now == std::string(58, 'x') + "…");
}
