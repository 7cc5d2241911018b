#include "engine/batch/batches.h"
#include "tests/support/catch.h"
#include "tests/support/parsed.h"
#include "tests/unit/engine/plan/plan_of.h"

using namespace dlflow;

namespace {

/// Returns the dependencies of a chain's last batch if only arrays with the same tasks wait task by
/// task.
std::vector<PlannedDependency> dependencies_of_last(const std::string& steps) {
  const Plan plan = test::fresh_plan(test::parsed("name: w\nsteps:\n" + steps));
  const std::vector<Standing> standing(plan.jobs.size(), {Standing::Kind::ToSubmit, ""});
  return plan_batches(plan, standing, {.gaps = false, .same_tasks = true}).back().waits_for;
}

}  // namespace

TEST_CASE("arrays with the same tasks wait task by task", "[batches]") {
  CHECK(dependencies_of_last(R"(
  train: {run: "true", matrix: {n: [0, 1, 2]}}
  eval: {run: "true", matrix: {n: [0, 1, 2]}, needs: [train]}
)") == std::vector<PlannedDependency>{{.kind = PlannedDependency::Kind::SameTask, .batch = 0}});
}

TEST_CASE("arrays with other tasks wait for each other as a whole, if the batch system demands it",
          "[batches]") {
  CHECK(dependencies_of_last(R"(
  train: {run: "true", matrix: {n: [0, 1, 2]}}
  eval: {run: "true", matrix: {n: [0, 1]}, needs: [train]}
)") == std::vector<PlannedDependency>{{.batch = 0}});
}
