#include "engine/report/headline.h"

#include "tests/support/catch.h"
#include "tests/support/parsed.h"

using namespace dlflow;

namespace {

/// Returns the goal by which results of `fit` are compared, for a workflow that continues with
/// `text`: a gate of `fit`, or another step.
std::optional<Goal> goal(const std::string& text) {
  const Workflow workflow = test::parsed(
      "name: w\nsteps:\n  fit: {run: ./fit, matrix: {lr: [1, 2]}, outputs: {c: checkpoints}, "
      "checkpoint: {}" +
      text);
  return goal_of(workflow, "fit",
                 {{"accuracy", 0.5}, {"loss", 1}, {"score", 2}, {"cost-of-all", 3}});
}

}  // namespace

TEST_CASE("the best job of a sweep is the one that the workflow selects", "[headline]") {
  CHECK(goal("}\n") == Goal{"accuracy", true});
  CHECK(goal(", require: {cost-of-all: '< 9'}}\n") == Goal{"cost-of-all", false});
  CHECK(goal("}\n  best: {uses: checkpoint, with: {from: '${{ steps.fit.outputs.c }}', select: min "
             "loss}}\n") == Goal{"loss", false});
  CHECK(goal("}\n  best: {run: [cat, '${{ max_by(steps.fit.outputs.c, steps.fit.metrics.score) "
             "}}']}\n") == Goal{"score", true});
  CHECK(goal("}\n  best: {run: ./b, with: {lr: '${{ min_by(steps.fit.matrix.lr, "
             "steps.fit.metrics.cost-of-all) }}'}}\n") == Goal{"cost-of-all", false});
  CHECK(goal("}\n  best: {run: [echo, '${{ max_by(steps.fit.matrix.lr, steps.fit.metrics.none) "
             "}}']}\n") == Goal{"accuracy", true});  // a metric that no job has
}

TEST_CASE("NaN is never the best of a sweep", "[headline]") {
  const auto text = [](std::vector<Json> losses) {
    RunStatus status;
    for (size_t i = 0; i < losses.size(); ++i) {
      JobRow& row = status.jobs.emplace_back();
      row.step = "fit";
      row.job = JobName("fit", std::to_string(i));
      row.state = JobState::Succeeded;
      row.metrics = {{"loss", losses[i]}};
    }
    return headline(status, {});
  };
  CHECK(text({"NaN", 0.5, 0.25}) == "loss 0.250 (fit[2], the best of 3)");
  CHECK(text({0.5, "-Infinity", "NaN"}) == "loss 0.500 (fit[0], the best of 3)");
  CHECK(text({"NaN", "NaN"}) == "loss NaN");
}
