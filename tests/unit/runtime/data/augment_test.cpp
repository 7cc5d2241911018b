#include "runtime/data/augment.h"

#include "runtime/data/normalization.h"
#include "tests/support/catch.h"

using namespace dlflow::runtime;

namespace {

/// A 2 x 3 image of two channels after `change`.
std::vector<uint8_t> changed(const ImageChange& change) {
  const std::vector<uint8_t> image = {1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16};
  std::vector<uint8_t> output(image.size(), 99);
  apply_change(change, {2, 2, 3}, image.data(), output.data());
  return output;
}

}  // namespace

TEST_CASE("shift and mirror move pixels, and black moves in", "[data]") {
  using Pixels = std::vector<uint8_t>;
  CHECK(changed({}) == Pixels{1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16});
  CHECK(changed({0, 0, true}) == Pixels{3, 2, 1, 6, 5, 4, 13, 12, 11, 16, 15, 14});
  CHECK(changed({1, 0, false}) == Pixels{4, 5, 6, 0, 0, 0, 14, 15, 16, 0, 0, 0});
  CHECK(changed({0, -1, false}) == Pixels{0, 1, 2, 0, 4, 5, 0, 11, 12, 0, 14, 15});
  CHECK(changed({0, 1, true}) == Pixels{2, 1, 0, 5, 4, 0, 12, 11, 0, 15, 14, 0});
  CHECK(changed({-5, 7, true}) == Pixels(12, 0));
}

TEST_CASE("changes are drawn from their whole range, and none are when none are asked for",
          "[data]") {
  int smallest = 0, largest = 0, flips = 0;
  for (uint32_t sample = 0; sample < 1000; ++sample) {
    const ImageChange change = draw_change({4, true}, 1, 0, sample);
    smallest = std::min({smallest, change.shift_y, change.shift_x});
    largest = std::max({largest, change.shift_y, change.shift_x});
    flips += change.flip;
    REQUIRE(draw_change({0, false}, 1, 0, sample) == ImageChange{});
  }
  CHECK(smallest == -4);
  CHECK(largest == 4);
  CHECK(std::abs(flips - 500) < 80);  // five standard deviations
}

TEST_CASE("a change depends on seed, epoch and sample", "[data]") {
  const Augmentation many{1000, true};
  const ImageChange change = draw_change(many, 1, 2, 3);
  CHECK(draw_change(many, 1, 2, 3) == change);
  CHECK(draw_change(many, 2, 2, 3) != change);
  CHECK(draw_change(many, 1, 3, 3) != change);
  CHECK(draw_change(many, 1, 2, 4) != change);
}

TEST_CASE("normalisation gives each channel mean 0 and variance 1", "[data]") {
  // Channel 0: 0, 2, 4, 6 (mean 3, variance 5); channel 1: always 9.
  const std::vector<uint8_t> pixels = {0, 2, 9, 9, 4, 6, 9, 9};
  const Dataset dataset = make_dataset({2, 1, 2}, 1, pixels, {0, 0});
  const Normalization normalization = normalization_of(dataset);
  CHECK(normalization.scale[0] == Approx(1 / std::sqrt(5.0)));
  CHECK(normalization.shift[0] == Approx(-3 / std::sqrt(5.0)));
  CHECK(normalization.scale[1] == 1.0f);
  CHECK(normalization.shift[1] == -9.0f);

  std::vector<float> output(4);
  normalize(normalization, dataset.shape, pixels.data(), output.data());
  CHECK(output[1] == Approx(-1 / std::sqrt(5.0)));
  CHECK(output[3] == 0.0f);
}
