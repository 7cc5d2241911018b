#include "runtime/import/picture.h"

#include <png.h>

#include "base/error.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::string_literals;

namespace {

using Values = std::vector<uint8_t>;

std::string png(uint32_t format, uint32_t width, uint32_t height, const Values& values) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.format = format;
  image.width = width;
  image.height = height;
  png_alloc_size_t size = 0;
  REQUIRE(png_image_write_get_memory_size(image, size, 0, values.data(), 0, nullptr));
  std::string content(size, '\0');
  REQUIRE(png_image_write_to_memory(&image, content.data(), &size, 0, values.data(), 0, nullptr));
  return content;
}

std::string error_of(const std::string& content) {
  try {
    parse_picture(content, "a.png");
  } catch (const Error& error) {
    CHECK(error.code() == Errc::Corrupt);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("grey and coloured pictures are read channel by channel", "[picture]") {
  const Values grey = {1, 2, 3, 4, 5, 255}, colour = {1, 2, 3, 4, 5, 6},
               planes = {1, 4, 2, 5, 3, 6};
  const std::string six(grey.begin(), grey.end()), rgb(colour.begin(), colour.end());
  for (const std::string& content : {png(PNG_FORMAT_GRAY, 3, 2, grey), "P5\n3 2\n255\n" + six,
                                     "P5 # by hand\n3 2 # size\n255 " + six}) {
    const Picture picture = parse_picture(content, "a");
    CHECK(picture.shape == ImageShape{1, 2, 3});
    CHECK(picture.values == grey);
  }
  for (const std::string& content : {png(PNG_FORMAT_RGB, 2, 1, colour), "P6\n2 1\n255\n" + rgb}) {
    const Picture picture = parse_picture(content, "a");
    CHECK(picture.shape == ImageShape{3, 1, 2});
    CHECK(picture.values == planes);
  }
}

TEST_CASE("pictures that cannot be used are refused with the reason", "[picture]") {
  CHECK_THAT(error_of(png(PNG_FORMAT_RGBA, 1, 1, {1, 2, 3, 4})), Catch::Contains("is transparent"));
  CHECK(error_of("GIF89a") == "a.png: is neither a PNG nor a binary PGM or PPM file");
  CHECK_THAT(error_of("P5\n2 2\n255\nabc"),
             Catch::Contains("has 3 bytes of pixels, its header says 4"));
  CHECK_THAT(error_of("P5\n2 2\n65535\nabcdefgh"), Catch::Contains("has not 8 bits"));
  CHECK_THAT(error_of("P5\n2"), Catch::Contains("has no header"));
  CHECK_THAT(error_of("P5 #"), Catch::Contains("has no header"));
  CHECK_THAT(error_of("P6\n4000000 4000000\n255\n"), Catch::Contains("pixels; a picture has"));
}

TEST_CASE("a PNG file that is cut off or changed anywhere does no harm", "[picture]") {
  const std::string content = png(PNG_FORMAT_GRAY, 3, 2, {1, 2, 3, 4, 5, 255});
  for (size_t size = 0; size < 45; ++size) CHECK(error_of(content.substr(0, size)) != "");
  for (size_t i = 0; i < content.size(); ++i) {
    std::string damaged = content;
    damaged[i] ^= 0x11;
    error_of(damaged);
  }
}

TEST_CASE("pictures are known by their ending", "[picture]") {
  CHECK(is_picture("a/b.png"));
  CHECK(is_picture("B.PGM"));
  CHECK_FALSE(is_picture("a.jpg"));
  CHECK_FALSE(is_picture("png"));
}
