#include "runtime/nn/target_loss.h"

#include <cmath>

#include "runtime/nn/network.h"
#include "tests/support/catch.h"
#include "tests/support/from_pytorch.h"
#include "tests/unit/runtime/nn/target_step.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

constexpr LossKind kAll[] = {LossKind::MeanSquaredError, LossKind::AbsoluteError, LossKind::Huber,
                             LossKind::BinaryCrossEntropy};

LossKind loss_called(const std::string& word) {
  for (const LossKind loss : kAll) {
    if (name(loss) == word) return loss;
  }
  FAIL("no loss '" << word << "'");
  return LossKind::MeanSquaredError;
}

}  // namespace

TEST_CASE("losses of targets and their gradients are PyTorch's", "[nn]") {
  const Json expected = test::from_pytorch("DLFLOW_PYTORCH_TARGETS", DLFLOW_PYTORCH_TARGETS);
  REQUIRE(expected.at("cases").size() == 8);
  for (const Json& json : expected.at("cases")) {
    const LossKind loss = loss_called(json.at("name"));
    const std::vector<float> scores = json.at("scores"), targets = json.at("targets");
    const int64_t num_targets = json.at("num_targets");
    std::vector<float> differences(scores.size()), gradient(scores.size());
    const TargetSums sums = target_loss(loss, scores, targets, num_targets, differences);
    CHECK(sums.loss == Approx(json.at("loss").get<double>()).epsilon(1e-6));
    if (loss != LossKind::BinaryCrossEntropy) {
      CHECK(sums.squared_error == Approx(json.at("squared_error").get<double>()).epsilon(1e-6));
      CHECK(sums.absolute_error == Approx(json.at("absolute_error").get<double>()).epsilon(1e-6));
    }
    target_loss_backward(loss, differences, 0.5f / float(num_targets), gradient);
    for (size_t i = 0; i < gradient.size(); ++i) {
      const double theirs = json.at("gradient").at(i);
      CHECK(double(gradient[i]) == Approx(theirs / 2).epsilon(0).margin(1e-6));
    }
  }
}

TEST_CASE("binary cross-entropy counts right answers and handles any logit", "[nn]") {
  const std::vector<float> scores = {2, -3, 0.5f, -0.5f, 1e30f, -1e30f},
                           targets = {1, 0, 0, 1, 1, 0};
  std::vector<float> differences(6);
  const TargetSums sums =
      target_loss(LossKind::BinaryCrossEntropy, scores, targets, 2, differences);
  CHECK(sums.num_correct == 4);
  CHECK(std::isfinite(sums.loss));
  CHECK(differences[4] == 0);
  CHECK(differences[5] == 0);
}

TEST_CASE("a NaN among results makes the target loss NaN", "[nn]") {
  std::vector<float> differences(1);
  for (const LossKind loss : kAll) {
    const std::vector<float> scores = {NAN}, targets = {1};
    CHECK(std::isnan(target_loss(loss, scores, targets, 1, differences).loss));
  }
}

TEST_CASE("a network learns targets like the reference", "[nn]") {
  const std::string word = GENERATE("mse", "l1", "huber", "bce");
  const test::Problem p = test::make_problem(
      "[3]", "  - linear: {features: 5}\n  - tanh\n  - linear: {features: 2}\n", 4, word);
  const std::vector<float> targets = word == "bce" ? std::vector<float>{0, 1, 1, 1, 0, 0, 1, 0}
                                                   : std::vector<float>{3, -1, 0, 2, 1, 5, -2, 0};
  CAPTURE(word);
  CHECK(test::step_as_the_reference(p, targets).num_targets == (word == "bce" ? 8 : 0));
}
