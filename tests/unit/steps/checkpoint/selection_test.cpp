#include "steps/checkpoint/selection.h"

#include <cmath>

#include "base/error.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::steps;
using Catch::Contains;
using By = Selection::By;

namespace {

runtime::CheckpointInfo info(uint64_t step, std::map<std::string, double> metrics = {}) {
  runtime::CheckpointInfo result;
  result.step = step;
  result.metrics = std::move(metrics);
  return result;
}

}  // namespace

TEST_CASE("a selection is latest, or max or min of a metric", "[selection]") {
  CHECK(parse_selection("latest") == Selection{});
  CHECK(parse_selection("max accuracy") == Selection{By::Max, "accuracy"});
  CHECK(parse_selection("min  loss") == Selection{By::Min, "loss"});
  for (const char* bad : {"", "max", "max ", "best accuracy", "latest one"}) {
    CHECK_THROWS_WITH(parse_selection(bad), Contains("write latest, 'max accuracy' or 'min loss'"));
  }
}

TEST_CASE("the best metric is selected, on a tie the one trained longest", "[selection]") {
  const std::vector checkpoints = {
      info(1, {{"accuracy", 0.9}, {"loss", 0.3}}), info(3, {{"accuracy", 0.9}, {"loss", 0.2}}),
      info(2, {{"accuracy", 0.8}, {"loss", 0.1}}), info(4, {{"accuracy", NAN}}), info(5)};
  CHECK(select_checkpoint(checkpoints, {By::Max, "accuracy"}) == 1);
  CHECK(select_checkpoint(checkpoints, {By::Min, "accuracy"}) == 2);
  CHECK(select_checkpoint(checkpoints, {By::Min, "loss"}) == 2);
  CHECK(select_checkpoint(checkpoints, {}) == 4);
}

TEST_CASE("an unknown metric is refused with the known ones", "[selection]") {
  const std::vector checkpoints = {info(1, {{"accuracy", 0.9}}), info(2, {{"loss", NAN}})};
  CHECK_THROWS_WITH(select_checkpoint(checkpoints, {By::Max, "acuracy"}),
                    "no checkpoint has the metric 'acuracy'; there are: accuracy, loss; did you "
                    "mean 'accuracy'?");
  CHECK_THROWS_WITH(select_checkpoint(checkpoints, {By::Min, "loss"}),
                    "the metric 'loss' is not a number in any checkpoint");
  CHECK_THROWS_WITH(select_checkpoint(std::vector{info(1)}, {By::Min, "loss"}),
                    Contains("there are none at all"));
}

TEST_CASE("the last of equal checkpoints is selected", "[selection]") {
  const std::vector checkpoints = {info(1, {{"loss", 0.5}}), info(1, {{"loss", 0.5}})};
  CHECK(select_checkpoint(checkpoints, {By::Min, "loss"}) == 1);
  CHECK(select_checkpoint(checkpoints, {}) == 1);
}

TEST_CASE("a selection needs a direction and a metric", "[selection]") {
  CHECK_THROWS(parse_selection("min"));
  CHECK_THROWS(parse_selection("min "));
  CHECK_THROWS(parse_selection(" loss"));
}
