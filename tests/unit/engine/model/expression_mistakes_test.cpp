#include "tests/unit/engine/model/mistakes_of.h"

using namespace dlflow;
using test::mistakes_of;

// Mistakes in `${{ }}`: what a user would write, and every word of the answer.

TEST_CASE("references are checked where they stand", "[mistakes]") {
  const auto argv = [](const std::string& expression, const std::string& more = "") {
    return mistakes_of(
        "params: {epochs: 3}\nsteps:\n  a: {run: x, outputs: {model: m}}\n  b:\n    run: [x, "
        "\"${{ " +
        expression + " }}\"]" + more);
  };
  CHECK(argv("params.epoch") ==
        "w.yaml:5:19: error: unknown parameter 'epoch'; did you mean 'epochs'?");
  CHECK(argv("matrix.lr") ==
        "w.yaml:5:19: error: matrix.lr has no value, since the step has no matrix");
  CHECK(argv("matrix.rl", "\n    matrix: {lr: [1]}") ==
        "w.yaml:5:19: error: the matrix has no axis 'rl'; did you mean 'lr'?");
  CHECK(argv("steps.a.outputs.modl") ==
        "w.yaml:5:19: error: step 'a' has no output 'modl'; did you mean 'model'?; a run step "
        "declares them: outputs: {modl: FILE}");
  CHECK(argv("steps.b.metrics.x") ==
        "w.yaml:5:19: error: step 'b' refers to itself in steps.b.metrics.x");
  CHECK(argv("steps.aa.metrics.x") ==
        "w.yaml:5:19: error: unknown step 'aa' in steps.aa.metrics.x; did you mean 'a'?");
  CHECK(argv("lenght(params.epochs)") ==
        "w.yaml:5:19: error: unknown function 'lenght'; did you mean 'length'?");
}

TEST_CASE("a step's axes are its own and those of what it selects", "[mistakes]") {
  const auto after = [](const std::string& expression, const std::string& more = "") {
    return mistakes_of(
        "steps:\n"
        "  train: {run: x, outputs: {m: m}, matrix: {data: [a, b], case: [{w: 1, lr: 2}]}}\n"
        "  best: {uses: checkpoint, matrix: {data: [a, b]}, with: {from: \"${{ "
        "steps.train.outputs.m }}\"}}\n"
        "  best2: {uses: checkpoint, with: {from: \"${{ steps.best.outputs.checkpoint }}\"}}\n"
        "  one: {run: x, outputs: {m: m}}\n"
        "  only: {uses: checkpoint, with: {from: \"${{ steps.one.outputs.m }}\"}}\n"
        "  after: {run: [x, \"${{ " +
        expression + " }}\"]" + more + "}\n");
  };
  for (const char* good :
       {"steps.best.matrix.data", "steps.best.matrix.case.lr", "steps.train.matrix.data",
        "steps.best2.matrix.case", "steps.best2.matrix.data"}) {
    CHECK(after(good) == "");
  }
  CHECK(after("steps.best.matrix.cas") ==
        "w.yaml:7:25: error: step 'best' has no axis 'cas'; did you mean 'case'?");
  CHECK(after("steps.best.matrix.case.rl") ==
        "w.yaml:7:25: error: axis 'case' has no key 'rl'; did you mean 'lr'?");
  CHECK(after("steps.best.matrix.data.x") ==
        "w.yaml:7:25: error: the values of axis 'data' are no mappings; write "
        "steps.best.matrix.data");
  CHECK(after("steps.one.matrix.lr") ==
        "w.yaml:7:25: error: steps.one.matrix.lr has no value, since step 'one' has no matrix");
  CHECK(after("steps.only.matrix.lr") ==
        "w.yaml:7:25: error: steps.only.matrix.lr has no value, since step 'only' selects from "
        "steps without a matrix");
  CHECK(after("1", ", resources: {ranks: \"${{ steps.best2.matrix.case.w }}\"}") ==
        "w.yaml:7:57: error: steps.best2.matrix.case.w has no value yet in resources.ranks of "
        "step 'after'; use params. and matrix. alone");
  CHECK(after("1", ", matrix: {w: \"${{ steps.best2.matrix.case }}\"}") ==
        "w.yaml:7:45: error: matrix.w of step 'after' takes the list that a step leaves as it is; "
        "write \"${{ steps.NAME.outputs.KEY }}\" and nothing else");
}

TEST_CASE("an expression inside lines of text is found where it stands", "[mistakes]") {
  CHECK(mistakes_of("steps:\n  a:\n    run: [x]\n    env:\n      A: |\n        one ${{ params.a "
                    "}}\n        two $${{ x }} ${{ params.b }}\n") ==
        "w.yaml:6:17: error: unknown parameter 'a'; there are no params here\n"
        "w.yaml:7:27: error: unknown parameter 'b'; there are no params here");
}

TEST_CASE("what is not known soon enough cannot be used", "[mistakes]") {
  CHECK(mistakes_of("steps: {a: {run: x, resources: {ranks: \"${{ steps.b.outputs.n }}\"}, needs: "
                    "'${{ 1 }}'}, b: {run: x, outputs: {n: n}}}") ==
        "w.yaml:1:45: error: steps.b.outputs.n has no value yet in resources.ranks of step 'a'; "
        "use params. and matrix. alone\n"
        "w.yaml:1:76: error: expressions cannot be used in needs of step 'a'");
}

TEST_CASE("what an expression gives is checked as if it were written there", "[mistakes]") {
  CHECK(mistakes_of(R"(params: {n: two, rates: [0.1, 0]}
steps:
  t:
    uses: train
    matrix: {lr: "${{ params.rates }}", w: [1]}
    resources: {ranks: "${{ params.n }}"}
    with: {model: m, data: d, epochs: "${{ matrix.w }}", lr: "${{ matrix.lr }}"}
)") == "w.yaml:6:24: error: resources.ranks of step 't' must be a positive integer, not the string "
       "'two' (from '${{ params.n }}')\n"
       "w.yaml:7:62: error: with.lr of step 't' must be a positive number, not 0 (from '${{ "
       "matrix.lr }}' with lr = 0)");
}

TEST_CASE("a shell script holds no expressions, and the answer says what to write", "[mistakes]") {
  const auto script = [](const std::string& text) {
    return mistakes_of("steps:\n  a:\n    run: " + text);
  };
  const std::string refusal =
      "run of step 'a' is a shell script, where expressions are not replaced; write ";
  CHECK(script("train ${{ params.learning-rate }}") ==
        "w.yaml:3:20: error: " + refusal +
            "\"$DLFLOW_PARAM_LEARNING_RATE\", or give run as a list");
  CHECK(script("train ${{ matrix.lr }}") ==
        "w.yaml:3:20: error: " + refusal + "\"$DLFLOW_MATRIX_LR\", or give run as a list");
  CHECK(script("train ${{ matrix.case.lr }}") ==
        "w.yaml:3:20: error: " + refusal + "\"$DLFLOW_MATRIX_CASE_LR\", or give run as a list");
  CHECK(script("x ${{ steps.b.outputs.c }}") ==
        "w.yaml:3:16: error: " + refusal +
            "env: {NAME: \"${{ steps.b.outputs.c }}\"} and \"$NAME\" here, or give run as a list");
  CHECK(script("echo $${{") == "");
}
