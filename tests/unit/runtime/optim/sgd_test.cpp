#include "runtime/optim/sgd.h"

#include <cmath>
#include <limits>

#include "tests/support/catch.h"

using namespace dlflow::runtime;

TEST_CASE("SGD follows PyTorch's formulas for 20 steps", "[optim]") {
  const SgdOptions options =
      GENERATE(SgdOptions{0, 0}, SgdOptions{0.9f, 0}, SgdOptions{0, 0.1f}, SgdOptions{0.9f, 0.01f});
  constexpr size_t kElements = 37;  // whole vectors and a rest
  Sgd sgd(kElements, options);
  std::vector<float> weights(kElements), gradients(kElements);
  std::vector<double> w(kElements), v(kElements);
  for (size_t i = 0; i < kElements; ++i) w[i] = weights[i] = float(i) / 10 - 2;

  for (int step = 0; step < 20; ++step) {
    const float rate = 0.1f / float(step + 1);
    for (size_t i = 0; i < kElements; ++i) {
      gradients[i] = std::sin(float(step) + float(i));
      const double d = gradients[i] + options.weight_decay * w[i];
      v[i] = step == 0 ? d : options.momentum * v[i] + d;
      w[i] -= rate * v[i];
    }
    CHECK(sgd.step(weights, gradients, rate));
  }

  for (size_t i = 0; i < kElements; ++i) {
    CHECK(weights[i] ==
          Approx(w[i]).epsilon(1e-5).margin(1e-6));  // 20 steps of rounding to 24 bits
    CHECK(sgd.velocity()[i] == Approx(v[i]).epsilon(1e-5).margin(1e-6));
  }
}

TEST_CASE("padding that is zero stays zero", "[optim]") {
  Sgd sgd(16, {0.9f, 0.5f});
  std::vector<float> weights(16), gradients(16);
  weights[0] = gradients[0] = 1;
  CHECK(sgd.step(weights, gradients, 0.1f));
  CHECK(weights[0] == Approx(0.85));
  CHECK(std::vector(weights.begin() + 1, weights.end()) == std::vector<float>(15));
}

TEST_CASE("a restored velocity goes on with the same bits", "[optim]") {
  const std::vector<float> gradients = {0.3f, -0.7f, 0.1f};
  std::vector<float> weights = {1, 2, 3};
  Sgd sgd(3, {0.9f, 0.01f});
  CHECK(sgd.step(weights, gradients, 0.1f));

  Sgd restored(3, {0.9f, 0.01f});
  std::copy(sgd.velocity().begin(), sgd.velocity().end(), restored.velocity().begin());
  std::vector<float> restored_weights = weights;
  CHECK(sgd.step(weights, gradients, 0.1f));
  CHECK(restored.step(restored_weights, gradients, 0.1f));
  CHECK(restored_weights == weights);
}

TEST_CASE("a weight that is no finite number is noticed, wherever it is", "[optim]") {
  const size_t place = GENERATE(0, 5, 36);
  const float gradient = GENERATE(std::numeric_limits<float>::infinity(),
                                  std::numeric_limits<float>::quiet_NaN(), 3e38f);
  const float rate = GENERATE(0.0f, 2.0f);
  Sgd sgd(37, {0, 0});
  std::vector<float> weights(37, 1), gradients(37, -1);
  CHECK(sgd.step(weights, gradients, rate));
  gradients[place] = gradient;
  const bool fits = rate == 0 && gradient == 3e38f;
  CHECK(sgd.step(weights, gradients, rate) == fits);
}
