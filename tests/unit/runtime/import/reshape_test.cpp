#include "runtime/import/reshape.h"

#include <cstdlib>

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/from_pytorch.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

/// A grey picture whose values count up.
Picture counting(uint32_t width, uint32_t height) {
  Picture picture{{1, height, width}, {}, {}};
  for (uint32_t i = 0; i < width * height; ++i) picture.values.push_back(uint8_t(i));
  return picture;
}

PictureSize size_after(uint32_t width, uint32_t height, const Reshaping& reshaping) {
  const Picture picture = reshape(counting(width, height), reshaping, "a");
  CHECK(picture.values.size() == picture.shape.num_values());
  return {picture.shape.width, picture.shape.height};
}

}  // namespace

TEST_CASE("pictures are resized as PyTorch does with antialiasing", "[reshape]") {
  const Json expected = test::from_pytorch("DLFLOW_PYTORCH_RESIZE", DLFLOW_PYTORCH_RESIZE);
  REQUIRE(expected.at("cases").size() == 6);
  for (const Json& json : expected.at("cases")) {
    const std::vector<uint32_t> from = json.at("from"), to = json.at("to");
    const std::vector<float> theirs = json.at("resized");
    const Reshaping reshaping = {{}, PictureSize{to[0], to[1]}, {}};
    const Picture narrow = {{3, from[1], from[0]}, json.at("values"), {}};
    const Picture wide = {{3, from[1], from[0]}, {}, json.at("values")};
    const Picture bytes = reshape(narrow, reshaping, "a"), floats = reshape(wide, reshaping, "a");
    CHECK(bytes.shape == ImageShape{3, to[1], to[0]});
    REQUIRE(bytes.values.size() == theirs.size());
    REQUIRE(floats.floats.size() == theirs.size());
    for (size_t i = 0; i < theirs.size(); ++i) {
      CHECK(floats.floats[i] == Approx(theirs[i]).margin(1e-3));
      CHECK(std::abs(float(bytes.values[i]) - theirs[i]) <= 0.501f);
    }
  }
}

TEST_CASE("the shorter side or both are resized, then the middle is cut out", "[reshape]") {
  CHECK(size_after(8, 4, {2, {}, {}}) == PictureSize{4, 2});
  CHECK(size_after(4, 9, {2, {}, {}}) == PictureSize{2, 4});
  CHECK(size_after(3, 3, {7, {}, {}}) == PictureSize{7, 7});
  CHECK(size_after(8, 4, {{}, PictureSize{3, 5}, {}}) == PictureSize{3, 5});
  CHECK(size_after(8, 4, {2, {}, PictureSize{2, 2}}) == PictureSize{2, 2});
  CHECK(reshape(counting(4, 4), {{}, {}, PictureSize{2, 2}}, "a").values ==
        std::vector<uint8_t>{5, 6, 9, 10});
  CHECK(reshape(counting(5, 3), {{}, {}, PictureSize{2, 1}}, "a").values ==
        std::vector<uint8_t>{6, 7});
  CHECK(reshape(counting(3, 2), {{}, PictureSize{3, 2}, {}}, "a").values == counting(3, 2).values);
  CHECK_THROWS_WITH(reshape(counting(4, 3), {{}, {}, PictureSize{4, 4}}, "a.png"),
                    "a.png: has 4 x 3 pixels, too few to crop to 4 x 4; --resize makes it "
                    "larger first");
}

TEST_CASE("a long picture is not resized beyond the limit of a picture", "[reshape][attack]") {
  CHECK_THROWS_WITH(size_after(200, 1, {16384, {}, {}}), Catch::Contains("pixels; a picture has"));
}

TEST_CASE("sizes of pictures are read, and others refused", "[reshape]") {
  CHECK(parse_picture_size("224", "--crop") == PictureSize{224, 224});
  CHECK(parse_picture_size("320x240", "--crop") == PictureSize{320, 240});
  for (const char* text : {"", "x", "0", "-1", "3x", "x3", "3x0", "3x4x5", "3 4", "16385", "1e3"}) {
    CHECK_THROWS_WITH(parse_picture_size(text, "--crop"),
                      Catch::StartsWith("--crop: '" + std::string(text) + "' is not a size"));
  }
}
