#include "runtime/data/augment.h"

#include <cmath>
#include <set>

#include "runtime/data/normalization.h"
#include "tests/support/catch.h"

using namespace dlflow::runtime;

namespace {

using Pixels = std::vector<uint8_t>;
constexpr ImageShape kSmall = {1, 28, 28};

/// A 2 x 3 image of two channels after `change`.
std::vector<uint8_t> changed(const ImageChange& change) {
  const std::vector<uint8_t> image = {1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16};
  std::vector<uint8_t> output(image.size(), 99);
  apply_change(change, {2, 2, 3}, image.data(), output.data());
  return output;
}

}  // namespace

TEST_CASE("shift and mirror move pixels, and fill the gap with black", "[data]") {
  CHECK(changed({}) == Pixels{1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16});
  CHECK(changed({0, 0, true}) == Pixels{3, 2, 1, 6, 5, 4, 13, 12, 11, 16, 15, 14});
  CHECK(changed({1, 0, false}) == Pixels{4, 5, 6, 0, 0, 0, 14, 15, 16, 0, 0, 0});
  CHECK(changed({0, -1, false}) == Pixels{0, 1, 2, 0, 4, 5, 0, 11, 12, 0, 14, 15});
  CHECK(changed({0, 1, true}) == Pixels{2, 1, 0, 5, 4, 0, 12, 11, 0, 15, 14, 0});
  CHECK(changed({-5, 7, true}) == Pixels(12, 0));
}

namespace {

/// A 3 x 3 image of one channel.
std::vector<float> changed_square(const ImageChange& change) {
  const std::vector<float> image = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<float> output(image.size(), 99);
  apply_change(change, {1, 3, 3}, image.data(), output.data());
  return output;
}

/// Red, green and blue of 2 x 2 pixels.
std::vector<double> changed_colors(const ImageChange& change) {
  const std::vector<float> image = {10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120};
  std::vector<float> output(image.size());
  apply_change(change, {3, 2, 2}, image.data(), output.data());
  return {output.begin(), output.end()};
}

void check_near(const std::vector<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(expected[i]).margin(0.02));
}

}  // namespace

namespace {

/// A 2 x 3 mask of three classes after `change`.
std::vector<float> changed_mask(const ImageChange& change) {
  const std::vector<uint8_t> mask = {0, 1, 2, 2, 0, 255};
  std::vector<float> output(mask.size(), 99);
  change_mask(change, {3, 2, 3}, mask.data(), output.data());
  return output;
}

}  // namespace

TEST_CASE("a mask moves with its picture, and the gap has no class", "[data]") {
  using Mask = std::vector<float>;
  CHECK(changed_mask({}) == Mask{0, 1, 2, 2, 0, 255});
  CHECK(changed_mask({0, 0, true}) == Mask{2, 1, 0, 255, 0, 2});
  CHECK(changed_mask({1, 0, false}) == Mask{2, 0, 255, 255, 255, 255});
  CHECK(changed_mask({0, 1, true}) == Mask{1, 0, 255, 0, 2, 255});
  ImageChange colors;
  colors.brightness = 0.5f;
  colors.contrast = 2;
  colors.hole = {0, 0, 2};
  CHECK(changed_mask(colors) == Mask{0, 1, 2, 2, 0, 255});
}

TEST_CASE("each pixel of a changed mask has the class of the nearest pixel", "[data]") {
  const std::vector<float> mask = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> output(9);
  ImageChange change;
  change.crop = {0, 1, 2, 2};  // rows 0 and 1, columns 1 and 2; sampled at -1/6, 1/2, 7/6
  change_mask(change, {1, 3, 3}, mask.data(), output.data());
  CHECK(output == std::vector<float>{1, 2, 2, 4, 5, 5, 4, 5, 5});
  change.flip = true;
  change_mask(change, {1, 3, 3}, mask.data(), output.data());
  CHECK(output[0] == 2);
  CHECK(output[2] == 1);
  ImageChange turned;
  turned.angle = 90;  // counterclockwise
  change_mask(turned, {1, 3, 3}, mask.data(), output.data());
  CHECK(output == std::vector<float>{2, 5, 8, 1, 4, 7, 0, 3, 6});
  turned.angle = 45;
  change_mask(turned, {1, 3, 3}, mask.data(), output.data());
  CHECK(output[4] == 4);
  CHECK(output[0] == 1);  // 1.4 pixels above the middle
}

TEST_CASE("a mask gets exactly its picture's changes", "[data]") {
  // A picture of large squares: away from their edges, its values must equal the mask's classes.
  constexpr ImageShape kShape = {1, 24, 24};
  std::vector<float> classes(24 * 24), picture(24 * 24), mask(24 * 24);
  for (size_t i = 0; i < classes.size(); ++i) {
    classes[i] = float(1 + i / 24 / 8 * 3 + i % 24 / 8);
  }
  Augmentation augmentation;
  augmentation.crop_padding = 3;
  augmentation.flip = true;
  for (const bool warps : {false, true}) {
    if (warps) {
      augmentation.resized_crop = 0.5;
      augmentation.rotate = 30;
    }
    size_t same = 0, inside = 0;
    for (uint32_t sample = 0; sample < 20; ++sample) {
      const ImageChange change = draw_change(augmentation, kShape, 1, 0, sample);
      apply_change(change, kShape, classes.data(), picture.data());
      change_mask(change, kShape, classes.data(), mask.data());
      for (size_t i = 0; i < mask.size(); ++i) {
        CHECK((mask[i] == float(kNoClass)) == (picture[i] == 0));
        if (mask[i] == float(kNoClass)) continue;
        ++inside;
        same += std::abs(mask[i] - picture[i]) < 0.01f ? 1 : 0;
      }
    }
    CHECK(inside > 20 * 24 * 24 / 2);
    CHECK(double(same) / double(inside) > (warps ? 0.7 : 0.999));
  }
}

// The expected numbers below are those of torchvision 0.14.
TEST_CASE("a crop is enlarged to the whole image, between pixels", "[data]") {
  const std::vector<uint8_t> image = {1, 2, 30, 4, 50, 6, 70, 8, 9};
  Pixels output(9);
  ImageChange change;
  change.crop = {0, 1, 2, 2};
  apply_change(change, {1, 3, 3}, image.data(), output.data());
  CHECK(output == Pixels{2, 16, 30, 26, 22, 18, 50, 28, 6});
  change.flip = true;
  apply_change(change, {1, 3, 3}, image.data(), output.data());
  CHECK(output == Pixels{30, 16, 2, 18, 22, 26, 6, 28, 50});
  change.crop = {1, 1, 1, 1};
  apply_change(change, {1, 3, 3}, image.data(), output.data());
  CHECK(output == Pixels(9, 50));
}

TEST_CASE("an image is rotated counterclockwise around its middle", "[data]") {
  ImageChange change;
  change.angle = 90;
  const std::vector<float> quarter = changed_square(change);
  check_near({quarter.begin(), quarter.end()}, {3, 6, 9, 2, 5, 8, 1, 4, 7});
  change.angle = 30;
  const std::vector<float> part = changed_square(change);
  check_near({part[1], part[3], part[4], part[5], part[7]}, {2.902, 2.634, 5, 7.366, 7.098});
  change.angle = 45;
  const std::vector<float> white(25, 1);
  std::vector<float> output(25);
  apply_change(change, {1, 5, 5}, white.data(), output.data());
  CHECK(output[12] == 1);
  for (const size_t corner : {0, 4, 20, 24}) CHECK(output[corner] == 0);  // filled with black
}

TEST_CASE("brightness, contrast and saturation are those of torchvision", "[data]") {
  ImageChange change;
  change.brightness = 0.5;
  check_near(changed_colors(change), {5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60});
  change = {};
  change.contrast = 0.5;
  check_near(changed_colors(change),
             {33.80, 38.80, 43.80, 48.80, 53.80, 58.80, 63.80, 68.80, 73.80, 78.80, 83.80, 88.80});
  change = {};
  change.saturation = 0.5;
  check_near(changed_colors(change),
             {26.30, 36.30, 46.30, 56.30, 46.30, 56.30, 66.30, 76.30, 66.30, 76.30, 86.30, 96.30});
}

TEST_CASE("changed bytes are rounded and limited to bytes", "[data]") {
  const Pixels image = {3, 200};
  Pixels output(2);
  ImageChange change;
  change.brightness = 1.5;
  apply_change(change, {1, 1, 2}, image.data(), output.data());
  CHECK(output == Pixels{5, 255});
}

TEST_CASE("the hole is a square around its middle, cut off at the edges", "[data]") {
  std::vector<float> image(2 * 3 * 4, 1);
  cut_out({0, 3, 3}, {2, 3, 4}, image.data());
  const std::vector<float> plane = {1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1};
  CHECK(std::vector(image.begin(), image.begin() + 12) == plane);
  CHECK(std::vector(image.begin() + 12, image.end()) == plane);
  cut_out({}, {2, 3, 4}, image.data());
  CHECK(std::vector(image.begin(), image.begin() + 12) == plane);
}

TEST_CASE("crops have their share of the area, and sides of 3:4 to 4:3", "[data]") {
  Augmentation augmentation;
  augmentation.resized_crop = 0.25;
  double least = 1, most = 0;
  for (uint32_t sample = 0; sample < 1000; ++sample) {
    const CropBox crop = draw_change(augmentation, {3, 96, 96}, 1, 0, sample).crop;
    REQUIRE(crop.top + crop.height <= 96);
    REQUIRE(crop.left + crop.width <= 96);
    const double share = double(crop.height) * crop.width / (96 * 96);
    CHECK(double(crop.height) / crop.width == Approx(1).epsilon(0.36));
    least = std::min(least, share);
    most = std::max(most, share);
  }
  CHECK(least == Approx(0.25).epsilon(0.03));
  CHECK(most > 0.9);
  const CropBox strip = draw_change({.resized_crop = 1}, {1, 10, 90}, 1, 0, 0).crop;
  CHECK(strip == CropBox{0, 38, 10, 13});  // none fits: the largest in the middle
}

TEST_CASE("angles and factors come from their whole range, and holes from the whole image",
          "[data]") {
  const Augmentation augmentation{.rotate = 20, .brightness = 0.4, .cutout = 2};
  double steepest = 0, darkest = 1, brightest = 1;
  std::set<std::pair<uint32_t, uint32_t>> middles;
  for (uint32_t sample = 0; sample < 1000; ++sample) {
    const ImageChange change = draw_change(augmentation, {1, 4, 4}, 1, 0, sample);
    steepest = std::max(steepest, std::abs(double(change.angle)));
    darkest = std::min(darkest, double(change.brightness));
    brightest = std::max(brightest, double(change.brightness));
    CHECK(change.contrast == 1);
    middles.emplace(change.hole.y, change.hole.x);
  }
  CHECK(steepest <= 20);
  CHECK(steepest > 19);
  CHECK(darkest == Approx(0.6).margin(0.01));
  CHECK(brightest == Approx(1.4).margin(0.01));
  CHECK(middles.size() == 16);
}

TEST_CASE("changes are drawn from their whole range, and only if requested", "[data]") {
  int smallest = 0, largest = 0, flips = 0;
  for (uint32_t sample = 0; sample < 1000; ++sample) {
    const ImageChange change = draw_change({4, true}, kSmall, 1, 0, sample);
    smallest = std::min({smallest, change.shift_y, change.shift_x});
    largest = std::max({largest, change.shift_y, change.shift_x});
    flips += change.flip;
    REQUIRE(draw_change({}, kSmall, 1, 0, sample) == ImageChange{});
  }
  CHECK(smallest == -4);
  CHECK(largest == 4);
  CHECK(std::abs(flips - 500) < 80);  // five standard deviations
}

TEST_CASE("a change depends on seed, epoch and sample", "[data]") {
  const Augmentation many{1000, true};
  const ImageChange change = draw_change(many, kSmall, 1, 2, 3);
  CHECK(draw_change(many, kSmall, 1, 2, 3) == change);
  CHECK(draw_change(many, kSmall, 2, 2, 3) != change);
  CHECK(draw_change(many, kSmall, 1, 3, 3) != change);
  CHECK(draw_change(many, kSmall, 1, 2, 4) != change);
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
