#include "engine/planner/step_model.h"

#include "tests/support/catch.h"
#include "tests/unit/engine/planner/measured.h"

using namespace dlflow::planner;
using dlflow::test::measured;

namespace {

StepTime predicted(const Measurement& measurement, const Training& training, Layout layout,
                   double batch = 128) {
  return StepModel(measurement, training).predict(layout, batch, training.compression);
}

}  // namespace

TEST_CASE("measured settings are predicted as measured", "[planner]") {
  Measurement measurement = measured(1000);
  CHECK(predicted(measurement, {}, {1, 1}).step_s == Approx(0.073));
  measurement.points.push_back(dlflow::test::measured_point(2, 2));
  measurement.points.back().communication_wait_s = 0.013;  // other ranks may have come late
  measurement.points.back().step_s += 0.013;
  const StepTime two = predicted(measurement, {}, {2, 2});
  CHECK(two.step_s == Approx(0.05));
  CHECK(two.exposed_s == Approx(0.013));
}

TEST_CASE("more ranks compute and wait like the measured ones", "[planner]") {
  Measurement measurement = measured(1000);
  MeasuredPoint two = dlflow::test::measured_point(2, 2);
  for (auto* times : {&two.forward_s, &two.backward_s}) {
    for (double& seconds : *times) seconds *= 1.2;
  }
  two.communication_wait_s = 0.003;
  measurement.points.push_back(two);
  const StepTime four = predicted(measurement, {}, {4, 4});
  CHECK(four.compute_s == Approx(1.2 * 0.018));
  CHECK(four.exposed_s == Approx(0.003 + 1e-6).epsilon(0.001));  // 1.5 times the bytes
}

TEST_CASE("ranks share the leaves, and small sums are hidden", "[planner]") {
  // 4 leaves of 9 ms; the layers share a bucket, which is ready at the end and takes 2 us.
  const StepTime two = predicted(measured(1000), {}, {2, 2});
  CHECK(two.compute_s == Approx(0.036));
  CHECK(two.exposed_s == Approx(2e-6));
  CHECK(two.step_s == Approx(0.037 + 2e-6));
}

TEST_CASE("the slowest of three ranks has three of eight leaves, not 8/3", "[planner]") {
  CHECK(predicted(measured(1000), {}, {3, 3}).compute_s == Approx(0.027));  // 3 leaves, not 8/3
}

TEST_CASE("a sum hides behind the backward pass and the next forward pass", "[planner]") {
  // 4 MB a layer take 4 ms each. The second layer is ready at 34 ms of 36, and gives way to the
  // first, which is ready at 36 and done at 40; the second then needs 2 ms more, until 42. The next
  // forward pass takes 40-41 and 42-44, not 36-39.
  const StepTime two = predicted(measured(4e6), {}, {2, 2});
  CHECK(two.exposed_s == Approx(0.005));
  Training in_turn;
  in_turn.priority = false;  // 34-38, 38-42: the next pass 42-45
  CHECK(predicted(measured(4e6), in_turn, {2, 2}).exposed_s == Approx(0.006));
}

TEST_CASE("a group whose network was not measured predicts others without sums", "[planner]") {
  Measurement measurement = measured(1000);
  for (auto& time : measurement.network) time.nodes = 1;
  measurement.points.push_back(dlflow::test::measured_point(2, 2));
  CHECK(predicted(measurement, {}, {2, 1}).step_s > 0.037);
}

TEST_CASE("on one node no computation hides a sum", "[planner]") {
  Measurement measurement = measured(1e6);
  for (auto& time : measurement.network) time.nodes = 1;
  CHECK(predicted(measurement, {}, {2, 1}).exposed_s == Approx(0.002));
}

TEST_CASE("a rank adds up its own leaves", "[planner]") {
  Measurement measurement = measured(1000);
  measurement.points[0].communication_wait_s = 0.014;  // 7 additions of 2 ms
  measurement.points[0].step_s += 0.014;
  CHECK(predicted(measurement, {}, {1, 1}).step_s == Approx(0.087));
  CHECK(predicted(measurement, {}, {2, 2}).step_s == Approx(0.037 + 2e-6 + 3 * 0.002));
}

TEST_CASE("the time of a leaf follows the line through two sizes", "[planner]") {
  Measurement measurement = measured(1000);
  MeasuredPoint half =
      dlflow::test::measured_point(1, 1);  // half the leaf, three quarters of the time
  half.batch = half.samples_per_rank = 64;
  half.leaf_samples = 8;
  for (auto* times : {&half.forward_s, &half.backward_s}) {
    for (double& seconds : *times) seconds *= 0.75;
  }
  half.step_s = 0.75 * 0.072 + 0.001;
  measurement.points.push_back(half);
  // 16 samples take 9 ms and 8 take 6.75 ms, so 32 take 13.5 ms
  CHECK(predicted(measurement, {}, {1, 1}, 256).step_s == Approx(8 * 0.0135 + 0.001));
}

TEST_CASE("in fast mode the samples of a rank shrink, not their number of leaves", "[planner]") {
  Training fast;
  fast.exact = false;
  // One line through the origin: half the samples in 8 leaves.
  CHECK(predicted(measured(1000), fast, {2, 2}).compute_s == Approx(0.036));
}

TEST_CASE("a rank with half the samples waits half as long for them", "[planner]") {
  Measurement measurement = measured(1000);
  measurement.points[0].data_wait_s = 0.01;
  measurement.points[0].step_s += 0.01;
  CHECK(predicted(measurement, {}, {1, 1}).step_s == Approx(0.083));
  CHECK(predicted(measurement, {}, {2, 2}).step_s == Approx(0.037 + 2e-6 + 0.005));
}

TEST_CASE("a script waits for its buckets at the end of its backward pass", "[planner]") {
  Measurement measurement = measured(0);
  measurement.layers.clear();
  MeasuredPoint point;
  point.batch = point.samples_per_rank = point.leaf_samples = 64;
  point.step_s = 0.1;
  point.update_s = 0.01;
  point.forward_s = {0};
  point.backward_s = {0.09};
  point.buckets = {{4e6, 0.06}, {4e6, 0.08}};
  measurement.points = {point};
  Training script;
  script.exact = false;
  script.per_rank = true;
  // 4 ms each; the last one begins at 80 ms.
  const StepTime two = predicted(measurement, script, {2, 2});
  CHECK(two.exposed_s == Approx(0.004));
  CHECK(two.step_s == Approx(0.104));
}

TEST_CASE("ranks with a quota wait for each other's pauses", "[planner]") {
  Measurement measurement = measured(1 << 17);
  for (auto& time : measurement.network) time.algorithm = "recursive_doubling";
  const double without = predicted(measurement, {}, {4, 4}).exposed_s;
  measurement.core_share = 0.5;
  measurement.core_period_s = 0.0002;
  // A piece, with three rounds more than two ranks have.
  const double pauses = 3 * pause_seconds(0.5, 0.0002);
  CHECK(predicted(measurement, {}, {4, 4}).exposed_s == Approx(without + pauses));
  CHECK(predicted(measurement, {}, {2, 2}).exposed_s < without);
  measurement.core_period_s = 1;  // not more than twice
  CHECK(predicted(measurement, {}, {4, 4}).exposed_s == Approx(2 * without));
}

// resnet20, 32 samples in 4 leaves, at 50 Mbit/s (docs/contributor/benchmarks.md): 165 ms for one
// rank, 238 for two, 285 for four; two ranks send 1.09 MB by recursive doubling.
TEST_CASE("four ranks on a slow link are predicted as they were measured", "[planner]") {
  Measurement measurement = measured(0.545e6);
  measurement.network.clear();
  for (double bytes = 1024; bytes <= 1 << 24; bytes *= 4) {
    measurement.network.push_back({2, 2, "recursive_doubling", bytes, 3e-4 + bytes / 6.25e6});
  }
  measurement.points.push_back(dlflow::test::measured_point(2, 2));
  for (MeasuredPoint& point : measurement.points) {
    point.batch = 32;
    point.samples_per_rank = point.batch / point.ranks;
    point.leaf_samples = 8;
    point.leaves_per_rank /= 2;
    point.forward_s = {0.007 * point.leaves_per_rank, 0.007 * point.leaves_per_rank};
    point.backward_s = {0.0135 * point.leaves_per_rank, 0.0135 * point.leaves_per_rank};
  }
  measurement.points[1].communication_wait_s = 0.238 - 0.083;
  const StepTime four = predicted(measurement, {}, {4, 4}, 32);
  CHECK(four.step_s == Approx(0.285).epsilon(0.1));
}
