#include "engine/report/curves.h"

#include "tests/support/catch.h"

using namespace dlflow;

namespace {

std::vector<double> values(const Reported& reported, const std::string& name) {
  std::vector<double> found;
  for (const Curve& curve : reported.curves) {
    if (curve.name != name) continue;
    for (const CurvePoint& point : curve.points) found.push_back(point.value);
  }
  return found;
}

}  // namespace

TEST_CASE("each number of a line is a point of its own curve", "[curves]") {
  const Reported reported = read_reported(
      "{\"step\": 10, \"steps\": 40, \"epochs\": 2, \"epoch\": 1, \"at\": 12.5, \"loss\": 0.5, "
      "\"lr\": 0.1}\n"
      "not JSON\n[1]\n"
      "{\"step\": 20, \"steps\": 40, \"epochs\": 2, \"epoch\": 1, \"loss\": NaN, \"message\": "
      "\"x\"}\n"
      "{\"step\": 30, \"loss\": 0.25}\n"
      "{\"step\": 40, \"loss\": 0.1}");
  REQUIRE(reported.curves.size() == 2);
  CHECK(values(reported, "loss") ==
        std::vector<double>{0.5, 0.25});  // the last line has no end yet
  CHECK(values(reported, "lr") == std::vector<double>{0.1});
  const CurvePoint& first = reported.curves[0].points[0];
  CHECK(first.step == 10);
  CHECK(first.epoch == 0.5);
  CHECK(first.at == Time(std::chrono::milliseconds(12500)));
}

TEST_CASE("a curve breaks where it goes back to an earlier step", "[curves]") {
  const Reported reported = read_reported(
      "{\"step\": 1, \"loss\": 3}\n{\"step\": 2, \"loss\": 2}\n{\"step\": 1, \"loss\": 4}\n"
      "{\"step\": 2, \"loss\": 1}\n");
  REQUIRE(reported.curves.size() == 1);
  CHECK(reported.curves[0].breaks == std::vector<size_t>{2});
}

TEST_CASE("a program without a counter has a point per line", "[curves]") {
  const Reported reported = read_reported("{\"loss\": 3}\n{\"loss\": 2}\n");
  CHECK(reported.curves.at(0).points.at(1).step == 2);
  CHECK(reported.curves.at(0).breaks.empty());
}

TEST_CASE("validation ends an epoch, and counts as time of training", "[curves]") {
  const Reported reported = read_reported(
      "{\"step\": 1, \"loss\": 3, \"data_wait_s\": 0.1}\n"
      "{\"step\": 2, \"loss\": 2, \"accuracy\": 0.5, \"epoch_s\": 4, \"data_wait_s\": 0.5, "
      "\"communication_wait_s\": 1}\n"
      "{\"step\": 4, \"loss\": 1, \"accuracy\": 0.6, \"epoch_s\": 6, \"data_wait_s\": 0.25, "
      "\"communication_wait_s\": 2}\n");
  CHECK(values(reported, "loss") == std::vector<double>{3});
  CHECK(values(reported, "validation_loss") == std::vector<double>{2, 1});
  CHECK(values(reported, "data_wait_s") == std::vector<double>{0.5, 0.25});
  REQUIRE(reported.training.has_value());
  CHECK(reported.training->training_s == 10);
  CHECK(reported.training->data_wait_s == 0.75);
  CHECK(reported.training->communication_wait_s == 3.0);
}

TEST_CASE("the loss of validation is a curve of every kind of network", "[curves]") {
  for (const std::string measure : {"accuracy", "rmse", "perplexity", "iou"}) {
    const Reported reported =
        read_reported("{\"step\": 1, \"loss\": 3}\n{\"step\": 2, \"loss\": 2, \"" + measure +
                      "\": 0.5, \"epoch_s\": 4}\n");
    CHECK(values(reported, "loss") == std::vector<double>{3});
    CHECK(values(reported, "validation_loss") == std::vector<double>{2});
    CHECK(values(reported, measure.c_str()) == std::vector<double>{0.5});
  }
  const Reported without = read_reported("{\"step\": 2, \"loss\": 2, \"epoch_s\": 4}\n");
  REQUIRE(without.curves.size() == 1);
  CHECK(without.curves.at(0).name == "epoch_s");
}

TEST_CASE("a thinned curve keeps its ends, its breaks and its spikes", "[curves]") {
  Curve curve{.name = "loss", .points = {}, .breaks = {500}};
  for (int i = 0; i < 1000; ++i) {
    CurvePoint point;
    point.step = i % 500;
    point.value = i == 321 ? 100 : 1.0 / (1 + i % 500);
    curve.points.push_back(point);
  }
  const Curve thin = thinned(curve, 40);
  CHECK(thin.points.size() <= 41);
  CHECK(thin.points.front() == curve.points.front());
  CHECK(thin.points.back() == curve.points.back());
  REQUIRE(thin.breaks.size() == 1);
  CHECK(thin.points[thin.breaks[0]] == curve.points[500]);
  const bool has_spike = std::any_of(thin.points.begin(), thin.points.end(),
                                     [](const CurvePoint& point) { return point.value == 100; });
  CHECK(has_spike);
  CHECK(thinned(curve, 1000).points.size() == 1000);
}
