#include "runtime/train/noise_meter.h"

#include <cmath>
#include <random>

#include "tests/support/catch.h"

using namespace dlflow::runtime;

namespace {

constexpr size_t kElements = 500, kLeaves = 8, kLeafSamples = 4, kBatch = kLeaves * kLeafSamples;

/// A step whose samples' gradients are 0.1 in every element plus noise of `deviation`.
void measure(NoiseMeter& meter, uint64_t step, double deviation, std::mt19937& random) {
  std::normal_distribution<float> noise(0, float(deviation));
  meter.begin_step(step, kBatch);
  float report[2] = {}, sums[2] = {};
  std::vector<float> sum(kElements);
  for (size_t leaf = 0; leaf < kLeaves; ++leaf) {
    meter.write(leaf, report);
    sums[0] += report[0];
    sums[1] += report[1];
    std::vector<float> gradient(kElements);
    for (float& g : gradient) {
      for (size_t i = 0; i < kLeafSamples; ++i) g += (0.1f + noise(random)) / float(kBatch);
    }
    meter.add_gradient(leaf, gradient);
    for (size_t i = 0; i < kElements; ++i) sum[i] += gradient[i];
  }
  meter.add_sums(0, std::span(sum).first(300));
  meter.add_sums(300, std::span(sum).subspan(300));
  meter.read(sums);
}

}  // namespace

TEST_CASE("the noise scale is the variance over the squared mean", "[noise]") {
  std::mt19937 random(3);
  const double deviation = GENERATE(0.1, 0.3, 1.0);
  NoiseMeter meter({kBatch, kLeaves, kLeaves, kElements, true});
  for (uint64_t step = 0; step < 400; ++step) measure(meter, step, deviation, random);
  const std::optional<double> scale = meter.take();
  REQUIRE(scale);
  CHECK(*scale == Approx(deviation * deviation / 0.01).epsilon(0.1));
  CHECK_FALSE(meter.take());  // nothing new has come
}

TEST_CASE("the norm of the gradient is that of the last measured step", "[noise]") {
  std::mt19937 random(3);
  NoiseMeter meter({kBatch, kLeaves, kLeaves, kElements, true});
  CHECK_FALSE(meter.gradient_norm());
  for (uint64_t step = 0; step < 9; ++step) measure(meter, step, 0, random);
  CHECK(*meter.gradient_norm() == Approx(0.1 * std::sqrt(double(kElements))));
}

TEST_CASE("a noise scale that cannot be estimated is not reported", "[noise]") {
  std::mt19937 random(3);
  NoiseMeter one_leaf({kBatch, 1, 1, kElements, true});
  one_leaf.begin_step(0, kBatch);
  one_leaf.begin_step(1, kBatch);
  const float report[2] = {1, 1};
  one_leaf.read(report);
  CHECK_FALSE(one_leaf.take());

  NoiseMeter short_batch({kBatch, kLeaves, kLeaves, kElements, true});
  short_batch.begin_step(0, kBatch - 1);
  short_batch.begin_step(1, kBatch);
  short_batch.read(report);
  CHECK_FALSE(short_batch.take());
}

TEST_CASE("statistics that follow the gradients are not measured", "[noise]") {
  NoiseMeter meter({kBatch, kLeaves, 1, 3, true});
  meter.begin_step(0, kBatch);
  meter.add_sums(2, std::vector<float>{2, 5, 5});
  meter.add_sums(5, std::vector<float>{5});
  float report[2];
  meter.write(0, report);
  CHECK(report[1] == 4);
}
