#include "runtime/data/jpeg.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "runtime/data/jpeg_samples.h"
#include "tests/support/catch.h"
#include "tests/support/jpeg_file.h"
#include "tests/support/skip.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

using Values = std::vector<uint8_t>;

/// The sample of a view of the whole picture (H, W, C), computed by the definition of the triangle
/// filter.
Values by_definition(const Values& picture, const ImageShape& from, const PictureView& view) {
  const auto weights = [](const PictureAxis& axis, size_t i) {
    const double width = std::max(axis.scale, 1.0),
                 center = axis.from + (double(i) + 0.5) * axis.scale;
    std::vector<double> all(axis.end);
    double sum = 0;
    for (size_t k = axis.begin; k < axis.end; ++k) {
      sum += all[k] = std::max(0.0, 1 - std::abs(double(k) + 0.5 - center) / width);
    }
    for (double& weight : all) weight /= sum;
    return all;
  };
  Values sample;
  for (size_t c = 0; c < from.channels; ++c) {
    for (size_t y = 0; y < view.down.count; ++y) {
      const std::vector<double> down = weights(view.down, y);
      for (size_t x = 0; x < view.across.count; ++x) {
        const std::vector<double> across = weights(view.across, x);
        double sum = 0;
        for (size_t v = 0; v < down.size(); ++v) {
          for (size_t u = 0; u < across.size(); ++u) {
            if (down[v] * across[u] == 0) continue;
            sum += down[v] * across[u] * picture[(v * from.width + u) * from.channels + c];
          }
        }
        sample.push_back(uint8_t(std::lround(sum)));
      }
    }
  }
  return sample;
}

int largest_difference(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  int largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(int(a[i]) - int(b[i])));
  return largest;
}

Values sample_of(const std::string& file, const PictureView& view, uint32_t channels,
                 bool flip = false) {
  JpegReader reader(file, "a");
  Values values(size_t(channels) * view.down.count * view.across.count);
  JpegSamples().write(reader, view, channels, flip, values.data());
  return values;
}

}  // namespace

TEST_CASE("a part of a JPEG picture has the pixels that the whole one has", "[jpeg]") {
  if (!can_read_jpeg()) return test::skip("built without libjpeg");
  const bool progressive = GENERATE(false, true);
  const uint32_t channels = GENERATE(1u, 3u);
  test::JpegFile picture = test::scenery(83, 61, channels);
  picture.progressive = progressive;
  const std::string file = jpeg_file(picture);
  const Values whole = JpegReader(file, "a").read_all();
  for (const CropBox box : {CropBox{0, 0, 61, 83},
                            {0, 0, 1, 1},
                            {60, 82, 1, 1},
                            {17, 32, 20, 16},
                            {16, 31, 33, 35},
                            {1, 15, 15, 34},
                            {40, 64, 21, 19},
                            {31, 3, 7, 70}}) {
    DecodedPart part;
    JpegReader(file, "a").read_part(box, 1, channels == 3, part);
    REQUIRE(part.box.left <= box.left);
    REQUIRE(part.box.left + part.box.width >= box.left + box.width);
    REQUIRE(part.box.top == box.top);
    REQUIRE(part.box.height == box.height);
    size_t num_different = 0;
    for (size_t y = 0; y < box.height; ++y) {
      for (size_t x = 0; x < box.width; ++x) {
        for (size_t c = 0; c < channels; ++c) {
          const size_t at = (y * part.box.width + box.left - part.box.left + x);
          const size_t in_whole = (box.top + y) * 83 + box.left + x;
          num_different +=
              part.values[at * part.values_per_pixel + c] != whole[in_whole * channels + c];
        }
      }
    }
    CHECK(num_different == 0);
  }
}

TEST_CASE("pictures become samples by the triangle filter", "[jpeg]") {
  if (!can_read_jpeg()) return test::skip("built without libjpeg");
  const uint32_t channels = GENERATE(1u, 3u);
  const test::JpegFile picture = test::scenery(83, 61, channels);
  const std::string file = jpeg_file(picture);
  const Values whole = JpegReader(file, "a").read_all();
  const ImageShape shape{channels, 24, 32};
  for (const CropBox box :
       {CropBox{0, 0, 61, 83}, {5, 7, 40, 41}, {20, 30, 24, 32}, {3, 3, 5, 7}, {60, 0, 1, 83}}) {
    const PictureView view = view_of(box, shape);
    if (reduction_of(view) > 1) continue;
    const Values sample = sample_of(file, view, channels);
    CHECK(largest_difference(sample, by_definition(whole, picture.shape, view)) <= 1);
    Values mirrored = sample_of(file, view, channels, true);
    for (size_t row = 0; row < mirrored.size(); row += 32) {
      std::reverse(mirrored.begin() + std::ptrdiff_t(row),
                   mirrored.begin() + std::ptrdiff_t(row + 32));
    }
    CHECK(mirrored == sample);
  }
}

TEST_CASE("a crop of the sample's size has the picture's own pixels", "[jpeg]") {
  if (!can_read_jpeg()) return test::skip("built without libjpeg");
  const std::string file = jpeg_file(test::scenery(40, 30));
  const Values whole = JpegReader(file, "a").read_all();
  const Values sample = sample_of(file, view_of(CropBox{10, 5, 2, 3}, {3, 2, 3}), 3);
  for (size_t c = 0; c < 3; ++c) {
    for (size_t y = 0; y < 2; ++y) {
      for (size_t x = 0; x < 3; ++x) {
        CHECK(sample[(c * 2 + y) * 3 + x] == whole[((10 + y) * 40 + 5 + x) * 3 + c]);
      }
    }
  }
}

TEST_CASE("pictures that are much too large are made smaller by the decoder", "[jpeg]") {
  if (!can_read_jpeg()) return test::skip("built without libjpeg");
  CHECK(reduction_of(view_of(CropBox{0, 0, 47, 47}, {3, 24, 24})) == 1);
  CHECK(reduction_of(view_of(CropBox{0, 0, 48, 90}, {3, 24, 24})) == 2);
  CHECK(reduction_of(view_of(CropBox{0, 0, 96, 96}, {3, 24, 24})) == 4);
  CHECK(reduction_of(view_of(CropBox{0, 0, 9000, 9000}, {3, 24, 24})) == 8);
  // A smooth picture, for which both ways to scale it down hardly differ.
  const uint32_t side = GENERATE(64u, 131u, 250u);
  test::JpegFile picture{{3, side, side}, {}};
  for (uint32_t i = 0; i < side * side * 3; ++i) {
    picture.values.push_back(uint8_t((i / 3 % side + i / 3 / side) * 250 / (2 * side)));
  }
  const std::string file = jpeg_file(picture);
  const PictureView view = view_of(CropBox{0, 0, side, side}, {3, 24, 24});
  REQUIRE(reduction_of(view) > 1);
  const Values whole = JpegReader(file, "a").read_all();
  CHECK(largest_difference(sample_of(file, view, 3), by_definition(whole, picture.shape, view)) <=
        4);
}

TEST_CASE("grey and coloured pictures become samples with the set's channels", "[jpeg]") {
  if (!can_read_jpeg()) return test::skip("built without libjpeg");
  const std::string grey = jpeg_file(test::scenery(20, 20, 1));
  const PictureView view = view_of(CropBox{0, 0, 20, 20}, {1, 20, 20});
  const Values one = sample_of(grey, view, 1), three = sample_of(grey, view, 3);
  for (size_t c = 0; c < 3; ++c) {
    CHECK(std::equal(one.begin(), one.end(), three.begin() + std::ptrdiff_t(c * 400)));
  }
  CHECK(sample_of(jpeg_file(test::scenery(20, 20, 3)), view, 1).size() == 400);
}

TEST_CASE("extra bytes between two parts of a JPEG file change no pixel", "[jpeg]") {
  if (!can_read_jpeg()) return test::skip("built without libjpeg");
  const std::string file = jpeg_file(test::scenery(20, 20, 3));
  std::string longer = file;
  longer.insert(20, 2, '\0');  // after the first segment
  CHECK(JpegReader(longer, "a").read_all() == JpegReader(file, "a").read_all());
}

TEST_CASE("damage before the requested part is refused, naming the picture", "[jpeg]") {
  if (!can_read_jpeg()) return test::skip("built without libjpeg");
  std::string file = jpeg_file(test::scenery(83, 61));
  file.resize(file.size() / 2);
  DecodedPart part;
  CHECK_THROWS_WITH(JpegReader(file, "cat.jpg").read_part({0, 0, 61, 83}, 1, true, part),
                    Catch::StartsWith("cat.jpg: is a damaged JPEG file: "));
  CHECK_THROWS_WITH(JpegReader(file.substr(0, 100), "cat.jpg"),
                    Catch::StartsWith("cat.jpg: is a damaged JPEG file: "));
}
