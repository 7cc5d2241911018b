#include "runtime/nn/pixel_loss.h"

#include <cmath>

#include "runtime/nn/network.h"
#include "tests/support/catch.h"
#include "tests/support/from_pytorch.h"
#include "tests/unit/runtime/nn/target_step.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

constexpr float kNone = kIgnoredClass;

/// Masks of 2 classes, with 2 x 3 pixels each.
const std::vector<float> kMasks = {0, 1, 1, kNone, 0, 1, 1, 1, 1, 0, kNone, kNone};

test::Problem segmentation(const std::string& loss) {
  return test::make_problem("[1, 2, 3]",
                            "  - conv2d: {name: a, channels: 3, kernel: 3, padding: 1}\n  - tanh\n"
                            "  - conv2d: {name: b, channels: 2, kernel: 1}\n",
                            2, loss);
}

const std::vector<std::string> kLosses = {"pixel_cross_entropy", "dice",
                                          "pixel_cross_entropy_and_dice"};

}  // namespace

TEST_CASE("losses of pixels and their gradients are PyTorch's", "[nn]") {
  const Json expected = test::from_pytorch("DLFLOW_PYTORCH_PIXELS", DLFLOW_PYTORCH_PIXELS);
  REQUIRE(expected.at("cases").size() == 12);
  for (const Json& json : expected.at("cases")) {
    const std::string name = json.at("name");
    const std::vector<float> scores = json.at("scores"), mask = json.at("mask"),
                             weights = json.at("weights");
    const PixelLoss loss{name != "dice", name != "pixel_cross_entropy", json.at("smoothing"),
                         weights};
    const int64_t classes = json.at("classes"), pixels = int64_t(mask.size()) / 2;
    std::vector<float> probabilities(scores.size()), gradient(scores.size(), 7.0f);
    const MaskSums sums = measure_pixels(loss, {scores.data(), 2, classes, pixels}, mask.data(),
                                         probabilities.data());
    CAPTURE(name, pixels);
    CHECK(sums.loss == Approx(json.at("loss").get<double>()).epsilon(2e-6));
    CHECK(sums.num_correct == json.at("correct"));
    CHECK(sums.num_counted == json.at("counted"));
    pixel_loss_backward(loss, {probabilities.data(), 2, classes, pixels}, mask.data(), 0.5f,
                        gradient.data());
    for (size_t i = 0; i < gradient.size(); ++i) {
      const double theirs = json.at("gradient").at(i);
      CHECK(double(gradient[i]) == Approx(theirs / 2).epsilon(1e-5).margin(1e-6));
    }
  }
}

TEST_CASE("a network learns masks like the reference", "[nn]") {
  for (const std::string& loss : kLosses) {
    const test::Problem p = segmentation(loss);
    CAPTURE(loss);
    CHECK(test::step_as_the_reference(p, kMasks).num_targets == 9);
  }
}

TEST_CASE("masks whose pixels are all ignored have no loss and no gradient", "[nn]") {
  const PixelLoss loss{true, true, 0, {}};
  const std::vector<float> scores = {1, 2, 3, -1, 0, 5}, mask(3, kNone);
  std::vector<float> probabilities(6), gradient(6, 7.0f);
  const PixelScores rows{scores.data(), 1, 2, 3};
  CHECK(measure_pixels(loss, rows, mask.data(), probabilities.data()).loss == 0);
  pixel_loss_backward(loss, {probabilities.data(), 1, 2, 3}, mask.data(), 1, gradient.data());
  CHECK(gradient == std::vector<float>(6, 0.0f));
}

TEST_CASE("a perfect answer has no Dice loss, and equal scores mean the first class", "[nn]") {
  const std::vector<float> scores = {80, -80, -80, 80, 0, 0}, mask = {0, 1, 1};
  // three pixels: class 0 for sure, class 1 for sure, undecided
  const std::vector<float> planes = {scores[0], scores[2], scores[4],
                                     scores[1], scores[3], scores[5]};
  std::vector<float> probabilities(6);
  MaskSums sums = measure_pixels({false, true, 0, {}}, {planes.data(), 1, 2, 3}, mask.data(),
                                 probabilities.data());
  CHECK(sums.num_correct == 2);
  CHECK(sums.loss == Approx(1 - (3.0 / 3.5 + 4.0 / 4.5) / 2));
  const std::vector<float> sure = {80, -80, -80, -80, 80, 80};
  sums = measure_pixels({false, true, 0, {}}, {sure.data(), 1, 2, 3}, mask.data(),
                        probabilities.data());
  CHECK(sums.loss == Approx(0).margin(1e-12));
}

TEST_CASE("a NaN among scores makes the pixel loss NaN", "[nn]") {
  const std::vector<float> scores = {NAN, 1, 2, 3}, mask = {1, 0};
  std::vector<float> probabilities(4);
  for (const bool dice : {false, true}) {
    const MaskSums sums = measure_pixels({!dice, dice, 0, {}}, {scores.data(), 1, 2, 2},
                                         mask.data(), probabilities.data());
    CHECK(std::isnan(sums.loss));
  }
}
