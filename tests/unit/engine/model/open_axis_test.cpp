#include "tests/support/catch.h"
#include "tests/unit/engine/model/mistakes_of.h"

using namespace dlflow;
using test::mistakes_of;

namespace {

/// Returns a workflow in which `work` has this matrix, and `split` these keys besides `run`.
std::string fan(const std::string& matrix, const std::string& split = "outputs: {parts: p.json}",
                const std::string& work = "run: ./work") {
  return "steps:\n  split: {run: ./split, " + split + "}\n  work:\n    matrix: " + matrix +
         "\n    " + work + "\n";
}

}  // namespace

TEST_CASE("an axis may take its values from an output of a step", "[matrix]") {
  const Workflow workflow =
      test::workflow_of(fan(R"({lr: [1, 2], part: "${{ steps.split.outputs.parts }}"})"));
  const Step& work = workflow.steps[1];
  CHECK(work.needs == std::vector<std::string>{"split"});
  CHECK(work.matrix.axes[1].source == AxisSource{"split", "parts"});
  CHECK(work.matrix.axes[1].is_open());
  CHECK_FALSE(work.matrix.axes[0].is_open());
  CHECK(has_open_axis(work.matrix));
  CHECK(max_elements(work.matrix) == 2);
  CHECK(element_label(matrix_elements(work.matrix)[1]) == "lr=2,part=?");
}

TEST_CASE("expressions may use an axis before its values are known", "[matrix]") {
  CHECK(mistakes_of(fan(R"({part: "${{ steps.split.outputs.parts }}"})", "outputs: {parts: p}",
                        "run: [./w, \"${{ matrix.part.file }}\"]\n"
                        "    resources: {cpus_per_rank: \"${{ matrix.part.cores + 1 }}\"}")) == "");
  CHECK_THAT(mistakes_of(fan(R"({part: "${{ steps.split.outputs.parts }}"})", "outputs: {parts: p}",
                             "run: [./w, \"${{ matrix.prat }}\"]")),
             Catch::Contains("the matrix has no axis 'prat'"));
}

TEST_CASE("an invalid list of an axis is refused at its place", "[matrix]") {
  using Catch::Contains;
  const std::string plain = R"({part: "${{ steps.split.outputs.parts }}"})";
  CHECK_THAT(mistakes_of(fan(R"({part: "${{ steps.split.outputs.prats }}"})")),
             Contains("w.yaml:4:") && Contains("has no output 'prats'; did you mean 'parts'?"));
  CHECK_THAT(mistakes_of(fan(R"({part: "${{ steps.slit.outputs.parts }}"})")),
             Contains("unknown step 'slit'"));
  CHECK_THAT(mistakes_of(fan(R"({part: "x ${{ steps.split.outputs.parts }}"})")),
             Contains("matrix.part of step 'work' takes a step's list unchanged; write \"${{ "
                      "steps.NAME.outputs.KEY }}\" and nothing else"));
  CHECK_THAT(mistakes_of(fan(R"({part: "${{ steps.split.metrics.parts }}"})")),
             Contains("takes a step's list unchanged"));
  CHECK_THAT(mistakes_of(fan(R"({part: ["${{ steps.split.outputs.parts }}"]})")),
             Contains("has no value yet in matrix.part"));
  CHECK_THAT(mistakes_of(fan(plain, "matrix: {n: [1, 2]}, outputs: {parts: p}")),
             Contains("step 'split' has a matrix itself, so it writes many lists"));
  CHECK_THAT(mistakes_of("steps:\n  get: {uses: stage, with: {sources: [{url: \"https://a/b\"}]}}\n"
                         "  w: {matrix: {p: \"${{ steps.get.outputs.path }}\"}, run: ./w}\n"),
             Contains("what step kind 'stage' writes is not a list"));
  CHECK_THAT(mistakes_of(fan(R"({part: "${{ steps.work.outputs.o }}"})")),
             Contains("refers to itself"));
}

TEST_CASE("a selection of elements cannot stand beside an unknown axis", "[matrix]") {
  for (const std::string choice :
       {"zip: [part, lr]", "include: [{part: 1, lr: 1}]", "exclude: [{lr: 1}]"}) {
    CHECK_THAT(
        mistakes_of(
            fan(R"({lr: [1, 2], part: "${{ steps.split.outputs.parts }}", )" + choice + "}")),
        Catch::Contains("cannot be combined with axis 'part', whose values a step computes"));
  }
}
