#include <cstdlib>

#include "base/file.h"
#include "base/json.h"
#include "runtime/nn/kernels.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;

TEST_CASE("loss and gradient with smoothed labels are PyTorch's", "[nn]") {
  const char* just_now = std::getenv("DLFLOW_PYTORCH_LOSS");  // else what is kept beside this file
  const Json expected =
      Json::parse(read_file(just_now != nullptr ? just_now : DLFLOW_PYTORCH_LOSS));
  const std::vector<float> scores = expected.at("scores");
  const std::vector<uint32_t> labels = expected.at("labels");
  std::vector<float> probabilities(scores.size()), gradient(scores.size());
  REQUIRE(expected.at("cases").size() == 5);
  for (const Json& json : expected.at("cases")) {
    const double smoothing = json.at("smoothing");
    const std::vector<float> weights = json.at("weights");
    const LossSums sums = softmax_cross_entropy(scores, labels, smoothing, probabilities, weights);
    CHECK(sums.loss == Approx(json.at("loss").get<double>()).epsilon(1e-6));
    softmax_cross_entropy_backward(probabilities, labels, smoothing, 0.5f, gradient, weights);
    for (size_t i = 0; i < gradient.size(); ++i) {
      const double theirs = json.at("gradient").at(i);
      CHECK(double(gradient[i]) == Approx(theirs / 2).epsilon(0).margin(1e-6));
    }
  }
}
