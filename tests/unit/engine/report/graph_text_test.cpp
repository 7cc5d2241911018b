#include "engine/report/graph_text.h"

#include "tests/support/catch.h"

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
  CHECK(graph_as_text(demo()) ==
        "data   stage\n"
        "train  train  x2  ← data\n");
}

TEST_CASE("a graph for Graphviz and for Mermaid has every step and every arrow", "[graph]") {
  const std::string dot = graph_as_dot(demo());
  CHECK(dot.find("\"train\" [label=\"train\\ntrain x2\"];") != std::string::npos);
  CHECK(dot.find("\"data\" -> \"train\";") != std::string::npos);
  const std::string mermaid = graph_as_mermaid(demo());
  CHECK(mermaid.find("train[\"train<br/>train x2\"]") != std::string::npos);
  CHECK(mermaid.find("data --> train") != std::string::npos);
}
