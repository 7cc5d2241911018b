#include "engine/planner/recommend.h"

#include "tests/support/catch.h"
#include "tests/unit/engine/planner/measured.h"

using namespace dlflow::planner;
using dlflow::test::measured;

namespace {

Advice advice(const Measurement& measurement, Training training = {}, Bounds bounds = {}) {
  const Network network(measurement.network);
  const std::vector<PlannedLayout> candidates = {
      {{1, 1}, true}, {{2, 2}, true}, {{4, 4}, true}, {{8, 8}, false}};
  return advise(StepModel(measurement, network, training), candidates, bounds);
}

}  // namespace

TEST_CASE("the fastest that fits is recommended, and the next one is the runner-up", "[planner]") {
  const Advice found = advice(measured(1000));
  REQUIRE(found.predictions.size() == 4);
  CHECK(found.recommended == 2);
  CHECK(found.runner_up == 1);
  // 73 ms on one rank, 18 + 1 ms on four and two messages of 1.5 us in a row
  CHECK(found.predictions[2].efficiency == Approx(0.073 / (4 * 0.019)).epsilon(0.001));
}

TEST_CASE("rank counts that would leave half of the ranks idle are not recommended", "[planner]") {
  const Advice found = advice(measured(64e6));  // 64 ms for each of two sums
  CHECK(found.predictions[1].efficiency < kLeastEfficiency);
  CHECK(found.recommended == 0);
}

TEST_CASE("time and core hours follow from epochs and samples", "[planner]") {
  Training training;
  training.epochs = 10;
  training.samples = 12800;  // 1000 steps
  Bounds bounds;
  bounds.cpus_per_rank = 2;
  const Prediction one = advice(measured(1000), training, bounds).predictions[0];
  CHECK(one.time_s == Approx(73));
  CHECK(one.core_hours == Approx(73 * 2 / 3600.0));
  CHECK_FALSE(advice(measured(1000)).predictions[0].time_s);
}

TEST_CASE("larger batches are predicted up to the noise scale", "[planner]") {
  Measurement measurement = measured(1000);
  measurement.points[0].noise_scale = 300;
  const Advice found = advice(measurement);
  CHECK(found.predictions.size() == 8);  // 128 and 256 samples each
  // Steps of 256 samples over those of 128: (1 + 300/256) / (1 + 300/128)
  CHECK(found.predictions[1].relative_time ==
        Approx(0.145 / 128 * (1 + 300.0 / 256) / (1 + 300.0 / 128)));
  Bounds bounds;
  bounds.only_own_batch = true;
  CHECK(advice(measurement, {}, bounds).predictions.size() == 4);
}

TEST_CASE("ranks that exceed a node's memory are not recommended", "[planner]") {
  Measurement measurement = measured(1000);
  measurement.points[0].memory_bytes = 1e9;
  Bounds bounds;
  bounds.node_memory_bytes = 0.5e9;
  CHECK_FALSE(advice(measurement, {}, bounds).recommended);
}

TEST_CASE("a compression that the workflow does not have is predicted, not recommended",
          "[planner]") {
  Training fast;
  fast.exact = false;
  const Advice found = advice(measured(64e6), fast);
  REQUIRE(found.predictions.size() == 7);  // one rank has nothing to send
  CHECK(found.predictions[2].compression == "topk");
  CHECK(found.predictions[2].step_s < found.predictions[1].step_s);
  CHECK(found.recommended == 0);
}
