#include "runtime/optim/sgd.h"

#include <cmath>
#include <limits>

#include "tests/support/catch.h"

using namespace dlflow::runtime;

TEST_CASE("SGD follows PyTorch's formulas for 20 steps", "[optim]") {
  const SgdOptions options =
      GENERATE(SgdOptions{0, 0}, SgdOptions{0.9f, 0}, SgdOptions{0, 0.1f}, SgdOptions{0.9f, 0.01f});
  constexpr size_t kElements = 37;  // whole vectors and a rest
  std::vector<float> weights(kElements), gradients(kElements), velocity(kElements);
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
    CHECK(sgd_step(options, rate, gradients, velocity, weights));
  }

  for (size_t i = 0; i < kElements; ++i) {
    CHECK(weights[i] ==
          Approx(w[i]).epsilon(1e-5).margin(1e-6));  // 20 steps of rounding to 24 bits
    CHECK(velocity[i] == Approx(v[i]).epsilon(1e-5).margin(1e-6));
  }
}

TEST_CASE("padding that is zero stays zero", "[optim]") {
  std::vector<float> weights(16), gradients(16), velocity(16);
  weights[0] = gradients[0] = 1;
  CHECK(sgd_step({0.9f, 0.5f}, 0.1f, gradients, velocity, weights));
  CHECK(weights[0] == Approx(0.85));
  CHECK(std::vector(weights.begin() + 1, weights.end()) == std::vector<float>(15));
}

TEST_CASE("a step in parts has the bits of one in a piece", "[optim]") {
  constexpr size_t kElements = 37;
  std::vector<float> gradients(kElements), weights(kElements), velocity(kElements);
  for (size_t i = 0; i < kElements; ++i) gradients[i] = std::sin(weights[i] = float(i));
  std::vector<float> parts = weights, parts_velocity = velocity;
  for (int step = 0; step < 2; ++step) {
    CHECK(sgd_step({0.9f, 0.01f}, 0.1f, gradients, velocity, weights));
    for (size_t first = 0; first < kElements; first += 5) {
      const size_t count = std::min<size_t>(5, kElements - first);
      const auto part = [&](auto& all) { return std::span(all).subspan(first, count); };
      CHECK(sgd_step({0.9f, 0.01f}, 0.1f, part(gradients), part(parts_velocity), part(parts)));
    }
  }
  CHECK(parts == weights);
  CHECK(parts_velocity == velocity);
}

TEST_CASE("a weight that is no finite number is noticed, wherever it is", "[optim]") {
  const size_t place = GENERATE(0, 5, 36);
  const float gradient = GENERATE(std::numeric_limits<float>::infinity(),
                                  std::numeric_limits<float>::quiet_NaN(), 3e38f);
  const float rate = GENERATE(0.0f, 2.0f);
  std::vector<float> weights(37, 1), gradients(37, -1), velocity(37);
  CHECK(sgd_step({0, 0}, rate, gradients, velocity, weights));
  gradients[place] = gradient;
  const bool fits = rate == 0 && gradient == 3e38f;
  CHECK(sgd_step({0, 0}, rate, gradients, velocity, weights) == fits);
}
