#include "runtime/nn/kernels.h"
#include "tests/support/catch.h"
#include "tests/support/from_pytorch.h"

using namespace dlflow;
using namespace dlflow::runtime;

TEST_CASE("loss and gradient with smoothed labels are PyTorch's", "[nn]") {
  const Json expected = test::from_pytorch("DLFLOW_PYTORCH_LOSS", DLFLOW_PYTORCH_LOSS);
  const std::vector<float> scores = expected.at("scores");
  const std::vector<uint32_t> labels = expected.at("labels");
  std::vector<float> probabilities(scores.size()), gradient(scores.size());
  REQUIRE(expected.at("cases").size() == 5);
  for (const Json& json : expected.at("cases")) {
    const std::vector<float> weights = json.at("weights");
    const CrossEntropy loss = {scores.size() / labels.size(), json.at("smoothing"), weights};
    const LossSums sums = softmax_cross_entropy(loss, scores, labels, probabilities);
    CHECK(sums.loss == Approx(json.at("loss").get<double>()).epsilon(1e-6));
    softmax_cross_entropy_backward(loss, probabilities, labels, 0.5f, gradient);
    for (size_t i = 0; i < gradient.size(); ++i) {
      const double theirs = json.at("gradient").at(i);
      CHECK(double(gradient[i]) == Approx(theirs / 2).epsilon(0).margin(1e-6));
    }
  }
}

TEST_CASE("the loss of class shares and its gradient equal torch.nn.CrossEntropyLoss",
          "[kernels]") {
  const std::vector<float> scores = {1, 2, -1, 0.5f, 0, 3};
  const std::vector<float> targets = {0.75f, 0.25f, 0, 0, 0.4f, 0.6f};
  const std::vector<uint32_t> labels = {0, 2};
  struct Case {
    double smoothing;
    std::vector<float> weights;
    double loss;
    std::vector<double> gradient;
  };
  const Case c = GENERATE(
      Case{0, {}, 2.422885, {-0.490504, 0.455385, 0.035119, 0.072521, -0.356014, 0.283492}},
      Case{0.1, {}, 2.544552, {-0.448837, 0.447051, 0.001786, 0.039188, -0.349347, 0.310159}},
      Case{0,
           {1, 2, 0.5f},
           3.722526,
           {-0.425629, 0.381731, 0.043899, 0.079774, -0.751615, 0.671841}},
      Case{0.1,
           {1, 2, 0.5f},
           3.772109,
           {-0.386125, 0.359186, 0.026939, 0.046924, -0.737988, 0.691065}});
  std::vector<float> probabilities(6), gradient(6);
  const CrossEntropy loss = {3, c.smoothing, c.weights};
  const LossSums sums = soft_cross_entropy(loss, scores, labels, targets, probabilities);
  CHECK(sums.loss == Approx(c.loss).epsilon(1e-6));
  CHECK(sums.num_correct == 1);
  soft_cross_entropy_backward(loss, probabilities, targets, 2, gradient);
  for (size_t i = 0; i < gradient.size(); ++i) {
    CHECK(gradient[i] == Approx(2 * c.gradient[i]).margin(3e-6));
  }
}
