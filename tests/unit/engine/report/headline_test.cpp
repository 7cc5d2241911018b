#include "engine/report/headline.h"

#include "tests/support/catch.h"
#include "tests/support/parsed.h"

using namespace dlflow;
using test::parsed;

namespace {

/// By what the results of `fit` are compared, where another step, or its own gate, says `text`.
std::optional<Goal> goal(const std::string& text) {
  const Workflow workflow = parsed(
      "name: w\nsteps:\n  fit: {run: ./fit, matrix: {lr: [1, 2]}, outputs: {c: checkpoints}, "
      "checkpoint: {}" +
      text);
  return goal_of(workflow, "fit",
                 {{"accuracy", 0.5}, {"loss", 1}, {"score", 2}, {"cost-of-all", 3}});
}

}  // namespace

TEST_CASE("the best of a sweep is what the workflow goes on with", "[headline]") {
  CHECK(goal("}\n") == Goal{"accuracy", true});
  CHECK(goal(", require: {cost-of-all: '< 9'}}\n") == Goal{"cost-of-all", false});
  CHECK(goal("}\n  best: {uses: checkpoint, with: {from: '${{ steps.fit.outputs.c }}', select: min "
             "loss}}\n") == Goal{"loss", false});
  CHECK(goal("}\n  best: {run: [cat, '${{ max_by(steps.fit.outputs.c, steps.fit.metrics.score) "
             "}}']}\n") == Goal{"score", true});
  CHECK(goal("}\n  best: {run: ./b, with: {lr: '${{ min_by(steps.fit.matrix.lr, "
             "steps.fit.metrics.cost-of-all) }}'}}\n") == Goal{"cost-of-all", false});
  CHECK(goal("}\n  best: {run: [echo, '${{ max_by(steps.fit.matrix.lr, steps.fit.metrics.none) "
             "}}']}\n") == Goal{"accuracy", true});  // which no job has
}
