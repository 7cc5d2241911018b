#include "engine/plan/graph.h"

#include "tests/support/catch.h"
#include "tests/support/parsed.h"

using namespace dlflow;
using test::parsed;

namespace {

std::vector<std::string> ordered(const Workflow& workflow) {
  std::vector<std::string> names;
  for (const uint32_t step : topological_order(workflow)) {
    names.push_back(workflow.steps[step].name);
  }
  return names;
}

StepEdge edge(const Workflow& workflow, uint32_t child, uint32_t parent) {
  return step_edge(workflow, child, parent, matrix_elements(workflow.steps[child].matrix),
                   matrix_elements(workflow.steps[parent].matrix));
}

/// Returns two steps with these matrices, a -> b; "": without a matrix.
Workflow two_steps(const std::string& a, const std::string& b) {
  return parsed("name: w\nsteps:\n  a: {run: 'true', matrix: " + a + "}\n  b: {run: 'true'" +
                (b.empty() ? "" : ", matrix: " + b) + ", needs: [a]}\n");
}

/// Returns the graph over all jobs of two steps, a -> b.
Graph graph_of_two(const Workflow& workflow) {
  const auto num_a = uint32_t(matrix_elements(workflow.steps[0].matrix).size());
  const auto num_b = uint32_t(matrix_elements(workflow.steps[1].matrix).size());
  return Graph({{0, num_a}, {num_a, num_b}}, {{}, {edge(workflow, 1, 0)}});
}

using Ranges = std::vector<JobRange>;

}  // namespace

TEST_CASE("parents come before children, otherwise in file order", "[graph]") {
  const Workflow workflow = parsed(R"(
name: w
steps:
  plot:   {run: "true", needs: [train]}
  fetch:  {run: "true"}
  train:  {run: "true", needs: [fetch]}
  alone:  {run: "true"}
)");
  CHECK(ordered(workflow) == std::vector<std::string>{"fetch", "train", "plot", "alone"});
}

TEST_CASE("a step comes right after the last step that it needs", "[graph]") {
  const Workflow workflow = parsed(R"(
name: w
steps:
  first: {run: "true"}
  all:   {run: "true", needs: [first, last, middle]}
  early: {run: "true"}
  middle: {run: "true", needs: [early]}
  last:  {run: "true", needs: [middle]}
)");
  CHECK(ordered(workflow) == std::vector<std::string>{"first", "early", "middle", "last", "all"});
}

TEST_CASE("a chain of 20,000 steps is ordered without deep recursion", "[graph]") {
  Workflow workflow;
  for (int i = 0; i < 20'000; ++i) {
    Step step;
    step.name = "s" + std::to_string(i);
    if (i < 19'999) step.needs = {"s" + std::to_string(i + 1)};
    workflow.steps.push_back(std::move(step));
  }
  CHECK(topological_order(workflow).front() == 19'999);
  CHECK(needed_for(workflow, "s0") == std::vector<bool>(20'000, true));
}

TEST_CASE("until keeps a step and its ancestors", "[graph]") {
  const Workflow workflow = parsed(R"(
name: w
steps:
  fetch:  {run: "true"}
  train:  {run: "true", needs: [fetch]}
  plot:   {run: "true", needs: [train]}
  other:  {run: "true"}
)");
  CHECK(needed_for(workflow, "train") == std::vector<bool>{true, true, false, false});
  CHECK_THROWS_WITH(needed_for(workflow, "trian"),
                    Catch::Contains("no step 'trian'; did you mean 'train'?"));
}

TEST_CASE("steps with the same matrix depend job on job", "[graph]") {
  const Graph graph = graph_of_two(two_steps("{lr: [1, 2, 3]}", "{lr: [1, 2, 3]}"));
  CHECK(graph.parents(3) == Ranges{{0, 1}});
  CHECK(graph.parents(5) == Ranges{{2, 1}});
  CHECK(graph.children(1) == Ranges{{4, 1}});
  CHECK(graph.children(4).empty());
  CHECK(graph.num_parents(4) == 1);
}

TEST_CASE("elements find their counterpart by value, not by place", "[graph]") {
  const Graph graph = graph_of_two(two_steps("{lr: [1, 2, 3]}", "{lr: [3, 1]}"));
  CHECK(graph.parents(3) == Ranges{{2, 1}});
  CHECK(graph.parents(4) == Ranges{{0, 1}});
  CHECK(graph.children(0) == Ranges{{4, 1}});
  CHECK(graph.children(1).empty());
  CHECK(graph.children(2) == Ranges{{3, 1}});
}

TEST_CASE("a step outside the matrix waits for all elements", "[graph]") {
  const Graph graph = graph_of_two(two_steps("{lr: [1, 2, 3]}", ""));
  CHECK(graph.parents(3) == Ranges{{0, 3}});
  CHECK(graph.num_parents(3) == 3);
  CHECK(graph.children(2) == Ranges{{3, 1}});
}

TEST_CASE("steps with different axes depend all on all", "[graph]") {
  const Graph graph = graph_of_two(two_steps("{lr: [1, 2]}", "{seed: [7, 8, 9]}"));
  CHECK(graph.parents(4) == Ranges{{0, 2}});
  CHECK(graph.children(1) == Ranges{{2, 3}});
}

TEST_CASE("an element without a counterpart is an error that names it", "[graph]") {
  const Workflow workflow = two_steps("{lr: [1, 2]}", "{lr: [2, 4]}");
  CHECK_THROWS_WITH(edge(workflow, 1, 0),
                    Catch::Contains("b[lr=4] has no counterpart in step 'a'"));
}

TEST_CASE("an element that has further axes waits only for its own parent", "[graph]") {
  const Graph graph = graph_of_two(two_steps("{data: [x, y]}", "{data: [y, x], lr: [1, 2]}"));
  CHECK(graph.parents(2) == Ranges{{1, 1}});  // b[data=y,lr=1]
  CHECK(graph.parents(3) == Ranges{{1, 1}});
  CHECK(graph.parents(4) == Ranges{{0, 1}});
  CHECK(graph.children(0) == Ranges{{4, 1}, {5, 1}});
  CHECK(graph.children(1) == Ranges{{2, 1}, {3, 1}});
}

TEST_CASE("an element with fewer axes waits for those that have its values", "[graph]") {
  const Graph graph = graph_of_two(two_steps("{lr: [1, 2], data: [x, y, z]}", "{data: [x, z]}"));
  CHECK(graph.parents(6) == Ranges{{0, 1}, {3, 1}});
  CHECK(graph.parents(7) == Ranges{{2, 1}, {5, 1}});
  CHECK(graph.num_parents(7) == 2);
  CHECK(graph.children(3) == Ranges{{6, 1}});
  CHECK(graph.children(4).empty());  // no child has data=y
}

TEST_CASE("neighbouring parents of an element are one range", "[graph]") {
  const Graph graph =
      graph_of_two(two_steps("{data: [x, y], lr: [1, 2, 3]}", "{data: [x, y], seed: [7, 8]}"));
  CHECK(graph.parents(6) == Ranges{{0, 3}});  // b[data=x,seed=7]
  CHECK(graph.parents(9) == Ranges{{3, 3}});
  CHECK(graph.children(4) == Ranges{{8, 2}});
}

TEST_CASE("axes with mappings as values are compared by the whole mapping", "[graph]") {
  const Graph graph = graph_of_two(two_steps("{case: [{net: x, batch: 1}, {net: y, batch: 2}]}",
                                             "{lr: [1, 2], case: [{batch: 2, net: y}]}"));
  CHECK(graph.parents(2) == Ranges{{1, 1}});
  CHECK(graph.parents(3) == Ranges{{1, 1}});
}

TEST_CASE("a value of a common axis that the parent lacks is an error that names it", "[graph]") {
  const Workflow one = two_steps("{data: [x]}", "{data: [x, z], lr: [1]}");
  CHECK_THROWS_WITH(edge(one, 1, 0),
                    Catch::Contains("b[data=z,lr=1] has no counterpart in step 'a': no element "
                                    "there has data=z; give both the same values, or name"));
  const Workflow list = two_steps("{data: [x], lr: [1]}", "{data: [z]}");
  CHECK_THROWS_WITH(edge(list, 1, 0), Catch::Contains("b[data=z] has no counterpart in step 'a'"));
}

TEST_CASE("a run of an earlier version waits for all elements if only some axes are the same",
          "[graph]") {
  const Workflow workflow = two_steps("{data: [x, y]}", "{data: [x, z], lr: [1]}");
  const StepEdge old = step_edge(workflow, 1, 0, matrix_elements(workflow.steps[1].matrix),
                                 matrix_elements(workflow.steps[0].matrix), false);
  CHECK(old.kind == StepEdge::Kind::All);
}
