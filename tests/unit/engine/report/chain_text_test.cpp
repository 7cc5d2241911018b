#include "engine/report/chain_text.h"

#include "base/text.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace std::chrono_literals;

namespace {

/// Steps as "b: a", where b needs a.
Plan plan_of(const std::vector<std::pair<std::string, std::vector<std::string>>>& steps) {
  Plan plan;
  for (const auto& [name, needs] : steps) {
    Step step;
    step.name = name;
    step.needs = needs;
    plan.workflow.steps.push_back(step);
  }
  return plan;
}

const Plan kPipeline = plan_of({{"data", {}}, {"train", {"data"}}, {"best", {"train"}}});

}  // namespace

TEST_CASE("a chain is shown with arrows, sizes and walltimes", "[report]") {
  const std::vector<SubmittedBatch> batches = {{0, "811", 1, 1, {}},
                                               {1, "812", 3, 3, {.ranks = 2, .walltime = 20min}},
                                               {2, "813", 1, 1, {}}};
  CHECK(chain_text(kPipeline, batches, Style()) ==
        "  data 811 → train 812 (array of 3, 2 ranks, 20:00) → best 813\n");
}

TEST_CASE("packed steps are shown with their numbers of elements and tasks", "[report]") {
  const std::vector<SubmittedBatch> batches = {{0, "811", 40, 2, {.walltime = 1min}},
                                               {1, "812", 3, 1, {}}};
  CHECK(chain_text(kPipeline, batches, Style()) ==
        "  data 811 (40 elements in 2 tasks, 1:00) → train 812 (3 elements in 1 task)\n");
}

TEST_CASE("a chain can be shown in ASCII", "[report]") {
  const std::vector<SubmittedBatch> batches = {{0, "811", 1, 1, {}}, {1, "812", 1, 1, {}}};
  CHECK(chain_text(kPipeline, batches, {.utf8 = false}) == "  data 811 -> train 812\n");
}

TEST_CASE("a step that does not wait for the previous one follows a comma", "[report]") {
  const Plan plan = plan_of({{"a", {}}, {"b", {"a"}}, {"c", {"a"}}, {"d", {"b", "c"}}});
  const std::vector<SubmittedBatch> batches = {
      {0, "1", 1, 1, {}}, {1, "2", 1, 1, {}}, {2, "3", 1, 1, {}}, {3, "4", 1, 1, {}}};
  CHECK(chain_text(plan, batches, Style()) == "  a 1 → b 2, c 3 → d 4\n");
}

TEST_CASE("a long chain is wrapped to the width of the terminal", "[report]") {
  std::vector<std::pair<std::string, std::vector<std::string>>> steps;
  std::vector<SubmittedBatch> batches;
  for (uint32_t i = 0; i < 12; ++i) {
    const std::string name = "step-" + std::to_string(i);
    steps.push_back({name, i == 0 ? std::vector<std::string>{}
                                  : std::vector<std::string>{"step-" + std::to_string(i - 1)}});
    batches.push_back({i, std::to_string(1000 + i), 1, 1, {}});
  }
  const std::string text = chain_text(plan_of(steps), batches, Style());
  const std::vector<std::string> lines = split(text, '\n');
  REQUIRE(lines.size() == 4);  // including the empty one after the last newline
  for (const std::string& line : lines) CHECK(display_width(line) <= 80);
  CHECK(lines[0].ends_with(" →"));
  CHECK(lines[1].starts_with("    step-"));
  CHECK(lines[1].find(" → step-") != std::string::npos);
}

TEST_CASE("a chain breaks where the next step and its comma would pass the width", "[report]") {
  const std::vector<SubmittedBatch> batches = {
      {0, "811", 2, 2, {}}, {1, "812", 1, 1, {.ranks = 1, .walltime = 1s}}, {2, "813", 1, 1, {}}};
  // 2 columns of indent and 27 of the first step; an arrow of 3, 16 of the second, one for a comma.
  CHECK(chain_text(kPipeline, batches, {.width = 80}) ==
        "  data 811 (array of 2) → train 812 (0:01) → best 813\n");
  const std::string in_two =
      "  data 811 (array of 2) →\n"
      "    train 812 (0:01) → best 813\n";
  CHECK(
      chain_text(kPipeline, batches, {.width = 45}).starts_with("  data 811 (array of 2) → train"));
  CHECK(chain_text(kPipeline, batches, {.width = 44}) == in_two);
  CHECK(chain_text(kPipeline, batches, {.width = 34}) == in_two);
  CHECK(chain_text(kPipeline, batches, {.width = 33}) ==
        "  data 811 (array of 2) →\n"
        "    train 812 (0:01) →\n"
        "    best 813\n");
  // The first step keeps its place, at any width.
  CHECK(chain_text(kPipeline, std::vector{batches[0]}, {.width = 10}) ==
        "  data 811 (array of 2)\n");
}
