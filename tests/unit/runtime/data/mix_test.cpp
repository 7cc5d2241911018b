#include "runtime/data/mix.h"

#include <cmath>
#include <numeric>

#include "tests/support/catch.h"

using namespace dlflow::runtime;

namespace {

constexpr ImageShape kShape = {2, 8, 8};
constexpr size_t kValues = 128, kClasses = 4;

/// A leaf in which image i has the value i everywhere, and the label i.
struct LabelledLeaf {
  std::vector<uint32_t> samples;
  std::vector<float> images, shares;

  explicit LabelledLeaf(size_t count)
      : samples(count), images(count * kValues), shares(count * kClasses) {
    std::iota(samples.begin(), samples.end(), 0);
    for (size_t i = 0; i < count; ++i) shares[i * kClasses + i] = 1;
    for (size_t i = 0; i < images.size(); ++i) images[i] = float(i / kValues);
  }

  void mix_as(const Augmentation& augmentation, uint64_t epoch = 0) {
    mix(augmentation, kShape, 1, epoch, {samples, images.data(), shares});
  }

  float share(size_t image, size_t label) const { return shares[image * kClasses + label]; }
  const float* image(size_t i) const { return images.data() + i * kValues; }
};

}  // namespace

TEST_CASE("an image and its labels are mixed with the next, the last with the first", "[data]") {
  LabelledLeaf leaf(4);
  leaf.mix_as({.mixup = 1});
  for (size_t i = 0; i < 4; ++i) {
    const size_t next = (i + 1) % 4;
    const float own = leaf.share(i, i);
    CHECK(own + leaf.share(i, next) == Approx(1));
    CHECK(own > 0);
    CHECK(own < 1);
    for (size_t k = 0; k < kValues; ++k) {
      REQUIRE(leaf.image(i)[k] == Approx(own * float(i) + (1 - own) * float(next)).margin(1e-6));
    }
  }
  CHECK(leaf.share(0, 0) != leaf.share(1, 1));
}

TEST_CASE("a box of the next image has the share of its area", "[data]") {
  size_t boxes = 0;
  for (uint64_t epoch = 0; epoch < 20; ++epoch) {
    LabelledLeaf leaf(3);
    leaf.mix_as({.cutmix = 1}, epoch);
    for (size_t i = 0; i < 3; ++i) {
      const float next = float((i + 1) % 3);
      const auto pasted = std::count(leaf.image(i), leaf.image(i) + kValues, next);
      CHECK(std::count(leaf.image(i), leaf.image(i) + kValues, float(i)) + pasted == kValues);
      CHECK(leaf.share(i, (i + 1) % 3) == Approx(double(pasted) / kValues).margin(1e-6));
      boxes += pasted > 0;
    }
  }
  CHECK(boxes > 40);
}

TEST_CASE("shares of classes are mixed as their images are", "[data]") {
  LabelledLeaf leaf(2);
  leaf.shares = {0.5, 0.25, 0.25, 0, 0, 0, 0.5, 0.5};
  leaf.mix_as({.mixup = 1});
  for (size_t i = 0; i < 2; ++i) {
    const float second = leaf.image(i)[0];  // images were 0 or 1 everywhere
    CHECK(leaf.share(i, 0) == Approx((1 - second) * 0.5f));
    CHECK(leaf.share(i, 1) == Approx((1 - second) * 0.25f));
    CHECK(leaf.share(i, 2) == Approx((1 - second) * 0.25f + second * 0.5f));
    CHECK(leaf.share(i, 3) == Approx(second * 0.5f));
  }
  CHECK(leaf.image(0)[0] != leaf.image(1)[0]);
}

TEST_CASE("an image gets either mixup or cutmix if both are on", "[data]") {
  size_t mixed = 0, pasted = 0;
  for (uint64_t epoch = 0; epoch < 100; ++epoch) {
    LabelledLeaf leaf(2);
    leaf.mix_as({.mixup = 0.5, .cutmix = 0.5}, epoch);
    const float* const image = leaf.image(0);
    const bool whole =
        std::all_of(image, image + kValues, [](float v) { return v == 0 || v == 1; });
    (whole ? pasted : mixed) += 1;
  }
  CHECK(mixed > 25);
  CHECK(pasted > 25);
}

TEST_CASE("a leaf's only image is not mixed", "[data]") {
  LabelledLeaf leaf(1);
  leaf.mix_as({.mixup = 0.05, .cutmix = 1});
  CHECK(std::count(leaf.images.begin(), leaf.images.end(), 0.0f) == long(kValues));
  CHECK(leaf.share(0, 0) == Approx(1));
  LabelledLeaf none(0);
  none.mix_as({.mixup = 1});
}

TEST_CASE("shares follow a beta distribution", "[data]") {
  double sum = 0, squares = 0;
  constexpr int kDraws = 4000;
  for (uint64_t epoch = 0; epoch < kDraws; ++epoch) {
    LabelledLeaf leaf(2);
    leaf.mix_as({.mixup = 0.2}, epoch);
    sum += double(leaf.share(0, 0));
    squares += std::pow(double(leaf.share(0, 0)), 2);
  }
  const double mean = sum / kDraws, variance = squares / kDraws - mean * mean;
  CHECK(mean == Approx(0.5).margin(0.04));  // five standard deviations
  CHECK(variance == Approx(1 / (4 * (2 * 0.2 + 1))).margin(0.01));
}

TEST_CASE("a share is a number even if both its draws are zero", "[data]") {
  for (uint64_t epoch = 0; epoch < 50; ++epoch) {
    LabelledLeaf leaf(2);
    leaf.mix_as({.mixup = 0.001}, epoch);
    CHECK(leaf.share(0, 0) >= 0);  // false for NaN
    CHECK(leaf.share(0, 0) <= 1);
    CHECK(leaf.share(0, 0) + leaf.share(0, 1) == Approx(1));
  }
}
