#include "engine/report/graph_text.h"

#include <string>

#include "tests/support/catch.h"
#include "tests/support/report_values.h"
#include "tests/support/temp_dir.h"
#include "tests/support/variable.h"

using namespace dlflow;

namespace {

Workflow demo() {
  Workflow workflow;
  workflow.name = "demo";
  Step data;
  data.name = "data";
  data.uses = "stage";
  Step train;
  train.name = "train";
  train.uses = "train";
  train.needs = {"data"};
  train.matrix.axes = {{"lr", {0.05, 0.1}}};
  workflow.steps = {train, data};
  return workflow;
}

}  // namespace

TEST_CASE("a graph is listed parents first", "[graph]") {
  CHECK(graph_as_text(demo(), {}, test::kPlain) ==
        "data   stage\n"
        "train  train  x2  ← data\n");
}

TEST_CASE("a graph for Graphviz and for Mermaid has every step and every arrow", "[graph]") {
  const std::string dot = graph_as_dot(demo(), {});
  CHECK(dot.find("\"train\" [label=\"train\\ntrain x2\"];") != std::string::npos);
  CHECK(dot.find("\"data\" -> \"train\";") != std::string::npos);
  const std::string mermaid = graph_as_mermaid(demo(), {});
  CHECK(mermaid.find("step_train[\"train<br/>train x2\"]") != std::string::npos);
  CHECK(mermaid.find("step_data --> step_train") != std::string::npos);
}

TEST_CASE("steps without a matrix are listed without a column for it", "[graph]") {
  Workflow workflow = demo();
  workflow.steps[0].matrix.axes.clear();
  workflow.steps[1].uses.clear();
  CHECK(graph_as_text(workflow, {}, test::kPlain) ==
        "data   run\n"
        "train  train  ← data\n");
  const std::string dot = graph_as_dot(workflow, {});
  CHECK(dot ==
        "digraph \"demo\" {\n"
        "  rankdir=LR;\n"
        "  node [shape=box, style=\"rounded,filled\", fillcolor=\"#f6f7f9\", color=\"#dde2e8\", "
        "fontcolor=\"#1b2430\", fontname=\"sans-serif\", fontsize=12];\n"
        "  edge [color=\"#8a94a1\"];\n"
        "  \"train\" [label=\"train\\ntrain\"];\n"
        "  \"data\" [label=\"data\\nrun\"];\n"
        "  \"data\" -> \"train\";\n"
        "}\n");
  CHECK(graph_as_mermaid(workflow, {}) ==
        "flowchart LR\n"
        "  step_train[\"train<br/>train\"]\n"
        "  step_data[\"data<br/>run\"]\n"
        "  step_data --> step_train\n");
}

TEST_CASE("the graph of a run has the state of each step, in the colours of its report",
          "[graph]") {
  const RunJobs jobs = {test::row_of("train", JobState::Succeeded, "lr=0.05"),
                        test::row_of("train", JobState::Failed, "lr=0.1"),
                        test::row_of("data", JobState::Succeeded)};
  CHECK(graph_as_text(demo(), jobs, test::kPlain) ==
        "data   stage      ✔ succeeded\n"
        "train  train  x2  ✘ 1/2 done, 1 failed  ← data\n");
  const std::string dot = graph_as_dot(demo(), jobs);
  CHECK(dot.find("train x2\\n✘ 1/2 done, 1 failed\", color=\"#c44900\"]") != std::string::npos);
  CHECK(dot.find("stage\\n✔ succeeded\", color=\"#00795a\"]") != std::string::npos);
  CHECK(graph_as_mermaid(demo(), jobs).find("style step_data stroke:#00795a") != std::string::npos);
}

TEST_CASE("columns of a graph are as wide as their longest word", "[graph]") {
  Workflow workflow = demo();
  workflow.steps[0].uses.clear();
  CHECK(graph_as_text(workflow, {}, test::kPlain) ==
        "data   stage\n"
        "train  run    x2  ← data\n");
}

TEST_CASE("dot turns the graph into an SVG", "[graph]") {
  const test::TempDir folder;
  folder.write_program("dot",
                       "#!/bin/sh\necho \"$1 $COLOUR\"; while read -r x; do echo \"$x\"; done\n");
  const test::Variable path("PATH", folder.path());
  const test::Variable colour("COLOUR", "red");
  CHECK(graph_as_svg(demo(), {}).starts_with("-Tsvg red\ndigraph \"demo\" {\n"));
}

TEST_CASE("a failing or missing dot is reported", "[graph]") {
  const test::TempDir folder;
  const test::Variable path("PATH", folder.path());
  CHECK_THROWS_WITH(graph_as_svg(demo(), {}), Catch::Contains("Debian's package graphviz"));
  folder.write_program("dot", "#!/bin/sh\nexit 1\n");
  CHECK_THROWS_WITH(graph_as_svg(demo(), {}), "dot ended with exit status 1");
}
