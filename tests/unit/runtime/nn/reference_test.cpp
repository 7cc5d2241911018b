#include <cmath>

#include "tests/support/catch.h"
#include "tests/unit/runtime/nn/every_layer.h"
#include "tests/unit/runtime/nn/random_tensors.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::runtime::reference;

namespace {

/// Compares every gradient with (loss(w + h) - loss(w - h)) / 2h. In double precision with
/// h = 1e-5 the quotient is off by about h^2 (curvature) and 1e-16 / h (rounding): 1e-10.
void check_gradients(const std::string& layers, const std::string& input) {
  test::Problem p = test::make_problem(input, layers, 3);
  const Step step = train_step(p.model, p.weights, p.images, p.labels);
  constexpr double kStep = 1e-5;
  for (const auto& [name, gradient] : step.gradients) {
    for (size_t i = 0; i < gradient.values.size(); ++i) {
      double& weight = p.weights[name][i];
      const double kept = weight;
      weight = kept + kStep;
      const double above = train_step(p.model, p.weights, p.images, p.labels).loss_sum;
      weight = kept - kStep;
      const double below = train_step(p.model, p.weights, p.images, p.labels).loss_sum;
      weight = kept;
      CAPTURE(layers, name, i);
      CHECK(gradient[i] == Approx((above - below) / (2 * kStep)).epsilon(1e-6).margin(1e-8));
    }
  }
}

}  // namespace

TEST_CASE("each layer's gradients are the slopes of its loss", "[reference]") {
  for (const test::LayerCase& layer : test::every_layer()) {
    check_gradients(layer.layers, layer.input);
  }
}

TEST_CASE("layers compute their formulas", "[reference]") {
  Tensor x({1, 1, 2, 3});
  x.values = {1, 2, 3, 4, 5, 6};
  CHECK(max_pool(x, {2, 1, 0}).values == std::vector<double>{5, 6});
  CHECK(avg_pool(x, {2, 1, 0}).values == std::vector<double>{3, 4});
  CHECK(avg_pool(x, {2, 2, 1}).values == std::vector<double>{0.25, 1.25, 1, 2.75});
  CHECK(global_avg_pool(x).values == std::vector<double>{3.5});
  Tensor weight({1, 1, 2, 2}), bias({1});
  weight.values = {1, 0, 0, -1};
  bias.values = {10};
  CHECK(conv2d(x, weight, bias, {2, 1, 0}).values == std::vector<double>{6, 6});
  CHECK(conv2d(x, weight, bias, {2, 2, 1}).values == std::vector<double>{9, 7, 10, 10 + 5});
  CHECK(moments(x).mean[0] == 3.5);
  CHECK(moments(x).variance[0] == Approx(35.0 / 12));
}

TEST_CASE("the loss of equal scores is the logarithm of their number", "[reference]") {
  const std::vector<uint32_t> labels = {0, 3};
  CHECK(softmax_cross_entropy(Tensor({2, 4}), labels) == Approx(2 * std::log(4.0)));
}
