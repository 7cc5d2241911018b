#include "tests/unit/engine/model/mistakes_of.h"

using namespace dlflow;
using test::answer_to;
using test::check_answers;

// Mistakes in `${{ }}`, as users make them, each with the full answer.

TEST_CASE("references are checked at their places", "[mistakes]") {
  const auto argv = [](const std::string& expression, const std::string& more = "") {
    return answer_to(
        "params: {epochs: 3}\nsteps:\n  a: {run: x, outputs: {model: m}}\n  b:\n    run: [x, "
        "\"${{ " +
        expression + " }}\"]" + more);
  };
  CHECK(argv("params.epoch") == "5:19: unknown parameter 'epoch'; did you mean 'epochs'?");
  CHECK(
      argv("matrix.lr") ==
      "5:19: matrix.lr has no value, since the step has no matrix; write matrix: {lr: [VALUE, …]}");
  CHECK(argv("matrix.rl", "\n    matrix: {lr: [1]}") ==
        "5:19: the matrix has no axis 'rl'; did you mean 'lr'?");
  check_answers(
      argv,
      {{"steps.a.outputs.modl",
        "5:19: step 'a' has no output 'modl'; did you mean 'model'?; a run step declares them: "
        "outputs: {modl: FILE}"},
       {"steps.b.metrics.x", "5:19: step 'b' refers to itself in steps.b.metrics.x"},
       {"steps.aa.metrics.x", "5:19: unknown step 'aa' in steps.aa.metrics.x; did you mean 'a'?"},
       {"lenght(params.epochs)", "5:19: unknown function 'lenght'; did you mean 'length'?"}});
}

TEST_CASE("a step's axes are its own and those of the parents that it selects from", "[mistakes]") {
  const auto after = [](const std::string& expression, const std::string& more = "") {
    return answer_to(
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
  check_answers(
      after,
      {{"steps.best.matrix.cas", "7:25: step 'best' has no axis 'cas'; did you mean 'case'?"},
       {"steps.best.matrix.case.rl", "7:25: axis 'case' has no key 'rl'; did you mean 'lr'?"},
       {"steps.best.matrix.data.x",
        "7:25: the values of axis 'data' are not mappings; write steps.best.matrix.data"},
       {"steps.one.matrix.lr",
        "7:25: steps.one.matrix.lr has no value, since step 'one' has no matrix"},
       {"steps.only.matrix.lr",
        "7:25: steps.only.matrix.lr has no value, since step 'only' selects from steps without a "
        "matrix"}});
  CHECK(after("1", ", resources: {ranks: \"${{ steps.best2.matrix.case.w }}\"}") ==
        "7:57: steps.best2.matrix.case.w has no value yet in resources.ranks of step 'after'; use "
        "only params. and matrix.");
  CHECK(after("1", ", matrix: {w: \"${{ steps.best2.matrix.case }}\"}") ==
        "7:45: matrix.w of step 'after' takes a step's list unchanged; write \"${{ "
        "steps.NAME.outputs.KEY }}\" and nothing else");
}

TEST_CASE("an expression in multi-line text is found at its place", "[mistakes]") {
  CHECK(answer_to("steps:\n  a:\n    run: [x]\n    env:\n      A: |\n        one ${{ params.a }}\n "
                  "       two $${{ x }} ${{ params.b }}\n") ==
        "6:17: unknown parameter 'a'; there are no params here\n"
        "7:27: unknown parameter 'b'; there are no params here");
}

TEST_CASE("a value that is known too late cannot be used", "[mistakes]") {
  CHECK(answer_to("steps: {a: {run: x, resources: {ranks: \"${{ steps.b.outputs.n }}\"}, needs: "
                  "'${{ 1 }}'}, b: {run: x, outputs: {n: n}}}") ==
        "1:45: steps.b.outputs.n has no value yet in resources.ranks of step 'a'; use only params. "
        "and matrix.\n"
        "1:76: expressions cannot be used in needs of step 'a'");
}

TEST_CASE("the value of an expression is checked like written text", "[mistakes]") {
  CHECK(answer_to(R"(params: {n: two, rates: [0.1, 0]}
steps:
  t:
    uses: train
    matrix: {lr: "${{ params.rates }}", w: [1]}
    resources: {ranks: "${{ params.n }}"}
    with: {model: m, data: d, epochs: "${{ matrix.w }}", lr: "${{ matrix.lr }}"}
)") == "6:24: resources.ranks of step 't' must be a positive integer or auto, not the string 'two' "
       "(from "
       "'${{ params.n }}')\n"
       "7:62: with.lr of step 't' must be a positive number, not 0 (from '${{ matrix.lr }}' with "
       "lr = 0)");
}

TEST_CASE("a shell script holds no expressions, and the error shows the alternative",
          "[mistakes]") {
  const auto script = [](const std::string& text) {
    return answer_to(
        "params: {learning-rate: 1}\nsteps:\n  b: {run: x, outputs: {c: d}}\n  a:\n"
        "    matrix: {lr: [1], case: [{lr: 2}]}\n    run: " +
        text);
  };
  const std::string refusal =
      "run of step 'a' is a shell script, where expressions are not replaced; write ";
  check_answers(
      script,
      {{"train ${{ params.learning-rate }}",
        "6:20: " + refusal + "\"$DLFLOW_PARAM_LEARNING_RATE\", or give run as a list"},
       {"train ${{ matrix.lr }}",
        "6:20: " + refusal + "\"$DLFLOW_MATRIX_LR\", or give run as a list"},
       {"train ${{ matrix.case.lr }}",
        "6:20: " + refusal + "\"$DLFLOW_MATRIX_CASE_LR\", or give run as a list"},
       {"x ${{ steps.b.outputs.c }}",
        "6:16: " + refusal +
            "env: {NAME: \"${{ steps.b.outputs.c }}\"} and \"$NAME\" here, or give run as a list"},
       {"x ${{ steps.bb.outputs.c }} ${{ params.learning-rat }} ${{ matrix.lrr }}",
        "6:16: " + refusal +
            "env: {NAME: \"${{ steps.b.outputs.c }}\"} and \"$NAME\" here, or give run as a list\n"
            "6:16: unknown step 'bb' in steps.bb.outputs.c; did you mean 'b'?\n"
            "6:42: unknown parameter 'learning-rat'; did you mean 'learning-rate'?\n"
            "6:42: " +
            refusal +
            "\"$DLFLOW_PARAM_LEARNING_RATE\", or give run as a list\n"
            "6:69: the matrix has no axis 'lrr'; did you mean 'lr'?\n"
            "6:69: " +
            refusal + "\"$DLFLOW_MATRIX_LR\", or give run as a list"},
       {"echo $${{", ""}});
}
