#include "runtime/import/picture.h"

#include <png.h>

#include "base/error.h"
#include "runtime/data/jpeg.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/jpeg_file.h"
#include "tests/unit/runtime/import/png_file.h"

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

/// A PNG file with big-endian values of 16 bits in `channels` (1: grey, 2: with opacity, 3: colour,
/// 4: with opacity).
std::string wide_png(int channels, uint32_t width, const std::vector<uint16_t>& values,
                     std::optional<uint16_t> transparent = {}) {
  constexpr int kColours[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                              PNG_COLOR_TYPE_RGB_ALPHA};
  return test::png_file([&](png_structp file, png_infop info) {
    const size_t row = size_t(width) * size_t(channels);
    png_set_IHDR(file, info, width, uint32_t(values.size() / row), 16, kColours[channels - 1],
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (transparent) {
      const png_color_16 colour{0, *transparent, *transparent, *transparent, *transparent};
      png_set_tRNS(file, info, nullptr, 0, &colour);
    }
    png_write_info(file, info);
    std::string bytes;
    for (const uint16_t value : values) {
      bytes += char(value >> 8);
      bytes += char(value & 255);
    }
    for (size_t i = 0; i < bytes.size(); i += 2 * row) {
      png_write_row(file, reinterpret_cast<png_bytep>(bytes.data() + i));
    }
  });
}

/// A picture of one colour; CMYK if it has 4 channels.
std::string jpeg(uint32_t channels, uint32_t width, uint32_t height, const Values& colour,
                 bool progressive) {
  test::JpegFile file{{channels, height, width}, {}, progressive};
  for (uint32_t i = 0; i < width * height; ++i) {
    file.values.insert(file.values.end(), colour.begin(), colour.end());
  }
  return test::jpeg_file(file);
}

std::string picture_error(const std::string& content) {
  return test::error_of([&] { parse_picture(content, "a.png"); }, Errc::Corrupt);
}

}  // namespace

TEST_CASE("grey and coloured pictures are read channel by channel", "[picture]") {
  const Values grey = {1, 2, 3, 4, 5, 255}, colour = {1, 2, 3, 4, 5, 6},
               planes = {1, 4, 2, 5, 3, 6};
  const std::string six(grey.begin(), grey.end()), rgb(colour.begin(), colour.end());
  for (const std::string& content :
       {png(PNG_FORMAT_GRAY, 3, 2, grey), "P5\n3 2\n255\n" + six,
        "P5\n# by hand\n# twice\n3 2\n255\n" + six, "P5#\n3 2 255 " + six,
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
  CHECK(picture_error("GIF89a") == "a.png: is neither a JPEG, a PNG nor a binary PGM or PPM file");
  CHECK_THAT(picture_error("P5\n2 2\n255\nabc"),
             Catch::Contains("has 3 bytes of pixels, but its header declares 4"));
  CHECK_THAT(picture_error("P5\n2 2\n65535\nabcdefgh"), Catch::Contains("does not have 8 bits"));
  CHECK_THAT(picture_error("P5\n2"), Catch::Contains("has no header"));
  CHECK_THAT(picture_error("P5 #"), Catch::Contains("has no header"));
  CHECK_THAT(picture_error("P6\n4000000 4000000\n255\n"), Catch::Contains("pixels; a picture has"));
  CHECK_THAT(picture_error("P5\n16000 16000\n255\n"),
             Catch::Contains("a picture has 67108864 at most"));
  CHECK(picture_error(png(PNG_FORMAT_GRAY, 16385, 1, Values(16385))) ==
        "a.png: is 16385 x 1 pixels; a picture has 1 to 16384 on each side");
}

TEST_CASE("transparent pixels are blended with black", "[picture]") {
  const Picture colour = parse_picture(
      png(PNG_FORMAT_RGBA, 3, 1, {10, 20, 30, 255, 10, 20, 30, 0, 10, 20, 30, 128}), "a");
  CHECK(colour.shape == ImageShape{3, 1, 3});
  CHECK(colour.values == Values{10, 0, 5, 20, 0, 10, 30, 0, 15});
  const Picture grey = parse_picture(png(PNG_FORMAT_GA, 2, 1, {200, 255, 200, 51}), "a");
  CHECK(grey.shape == ImageShape{1, 1, 2});
  CHECK(grey.values == Values{200, 40});
}

TEST_CASE("colours of a palette become the picture's colours", "[picture]") {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.format = PNG_FORMAT_RGB_COLORMAP;
  image.width = 3;
  image.height = 1;
  image.colormap_entries = 2;
  const Values map = {1, 2, 3, 200, 100, 50}, indices = {1, 0, 1};
  png_alloc_size_t size = 0;
  REQUIRE(png_image_write_get_memory_size(image, size, 0, indices.data(), 0, map.data()));
  std::string content(size, '\0');
  REQUIRE(
      png_image_write_to_memory(&image, content.data(), &size, 0, indices.data(), 0, map.data()));
  const Picture picture = parse_picture(content, "a");
  CHECK(picture.shape == ImageShape{3, 1, 3});
  CHECK(picture.values == Values{200, 1, 200, 100, 2, 100, 50, 3, 50});
}

TEST_CASE("a PNG file of 16 bits gives its exact numbers", "[picture]") {
  const Picture grey = parse_picture(wide_png(1, 2, {0, 65535, 257, 1, 514, 128}), "a");
  CHECK(grey.shape == ImageShape{1, 3, 2});
  CHECK(grey.values.empty());
  CHECK(grey.floats == std::vector<float>{0, 255, 1, 1 / 257.0f, 2, 128 / 257.0f});
  const Picture colour = parse_picture(wide_png(3, 1, {257, 514, 771}), "a");
  CHECK(colour.shape == ImageShape{3, 1, 1});
  CHECK(colour.floats == std::vector<float>{1, 2, 3});
  const Picture transparent = parse_picture(wide_png(4, 1, {2570, 5140, 7710, 0}), "a");
  CHECK(transparent.floats == std::vector<float>{0, 0, 0});
  CHECK(parse_picture(wide_png(2, 2, {257, 65535, 257, 0}), "a").floats ==
        std::vector<float>{1, 0});
  CHECK(parse_picture(wide_png(1, 2, {257, 514}, uint16_t{514}), "a").floats ==
        std::vector<float>{1, 0});
  CHECK(parse_picture(wide_png(3, 2, {257, 514, 771, 257, 257, 257}, uint16_t{257}), "a").floats ==
        std::vector<float>{1, 0, 2, 0, 3, 0});
  const std::string content = wide_png(1, 2, {0, 65535, 257, 1});
  for (size_t size = 0; size + 12 < content.size(); ++size) {
    CHECK(picture_error(content.substr(0, size)) != "");
  }
}

TEST_CASE("JPEG files, grey and in colour, are read", "[picture]") {
  if (!can_read_jpeg()) {
    WARN("skipped here: built without libjpeg (Debian: libjpeg-dev)");
    CHECK_THAT(picture_error("\xff\xd8\xff\xe0"), Catch::Contains("was built without libjpeg"));
    return;
  }
  for (const bool progressive : {false, true}) {
    const Picture grey = parse_picture(jpeg(1, 20, 10, {100}, progressive), "a");
    CHECK(grey.shape == ImageShape{1, 10, 20});
    for (const uint8_t value : grey.values) CHECK(std::abs(value - 100) <= 1);
    const Picture colour = parse_picture(jpeg(3, 9, 17, {200, 50, 120}, progressive), "a");
    CHECK(colour.shape == ImageShape{3, 17, 9});
    CHECK(std::abs(colour.values.front() - 200) <= 2);
    CHECK(std::abs(colour.values[9 * 17] - 50) <= 2);
    CHECK(std::abs(colour.values.back() - 120) <= 2);
  }
  CHECK_THAT(picture_error(jpeg(4, 8, 8, {1, 2, 3, 4}, false)),
             Catch::EndsWith("is neither grey nor in RGB; convert it"));
}

TEST_CASE("a JPEG file that is cut off is refused, and a changed one does no harm", "[picture]") {
  if (!can_read_jpeg()) return;
  for (const bool progressive : {false, true}) {
    const std::string content = jpeg(3, 24, 16, {200, 50, 120}, progressive);
    for (size_t size = 3; size + 2 < content.size(); ++size) {
      CHECK_THAT(picture_error(content.substr(0, size)),
                 Catch::Contains("is a damaged JPEG file: "));
    }
    for (size_t i = 0; i < content.size(); ++i) {
      std::string damaged = content;
      damaged[i] ^= 0x11;
      picture_error(damaged);
    }
  }
}

TEST_CASE("a JPEG file of endless scans or of too many pixels is refused", "[picture][attack]") {
  if (!can_read_jpeg()) return;
  std::string large = jpeg(1, 8, 8, {1}, false);
  const size_t frame = large.find("\xff\xc0");
  REQUIRE(frame != large.npos);
  large.replace(frame + 5, 4, "\x3e\x80\x3e\x80");  // 16,000 x 16,000
  CHECK_THAT(picture_error(large), Catch::Contains("a picture has 67108864 at most"));
  const std::string content = jpeg(1, 8, 8, {1}, true);
  const size_t last = content.rfind("\xff\xda");
  std::string many = content.substr(0, content.size() - 2);
  for (int i = 0; i < 300; ++i) many += content.substr(last, content.size() - 2 - last);
  CHECK_THAT(picture_error(many + "\xff\xd9"), Catch::Contains("is a damaged JPEG file"));
}

TEST_CASE("a PNG file that is cut off or changed anywhere does no harm", "[picture]") {
  const std::string content = png(PNG_FORMAT_GRAY, 3, 2, {1, 2, 3, 4, 5, 255});
  for (size_t size = 0; size < 45; ++size) CHECK(picture_error(content.substr(0, size)) != "");
  for (size_t i = 0; i < content.size(); ++i) {
    std::string damaged = content;
    damaged[i] ^= 0x11;
    picture_error(damaged);
  }
}

TEST_CASE("a picture is recognised by its first bytes", "[picture]") {
  const std::string unknown = "a.png: is neither a JPEG, a PNG nor a binary PGM or PPM file";
  for (const char* content : {"", "P", "P4 1 1 255 a", "P7 1 1 255 a", "p5 1 1 255 a", "\xff\xd8",
                              "\xff\xd8\xfe", "\x89PN"}) {
    INFO(content);
    CHECK(picture_error(content) == unknown);
  }
  CHECK_THAT(picture_error("\x89PNG"), Catch::Contains("is a damaged PNG file: "));
}

TEST_CASE("a PGM or PPM file has 8 bits and exactly the declared pixels", "[picture]") {
  for (const char* most : {"254", "256", "1"}) {
    CHECK_THAT(picture_error("P5 1 1 "s + most + " a"),
               Catch::Contains("does not have 8 bits per value"));
  }
  CHECK_THAT(picture_error("P5 2 2 255 abcde"),
             Catch::Contains("has 5 bytes of pixels, but its header declares 4"));
  CHECK_THAT(picture_error("P6 1 1 255 ab"),
             Catch::Contains("has 2 bytes of pixels, but its header declares 3"));
  for (const char* none : {"P5 1 1 255", "P5 1 1 255 "}) {
    CHECK_THAT(picture_error(none),
               Catch::Contains("has 0 bytes of pixels, but its header declares 1"));
  }
  for (const char* bad :
       {"P5", "P5 1 x 255 a", "P5 -1 1 255 a", "P5 4294967296 1 255 a", "P5 # 1 1 255 a"}) {
    INFO(bad);
    CHECK_THAT(picture_error(bad), Catch::Contains("has no header of a PGM or PPM file"));
  }
}

TEST_CASE("opacity is rounded to the nearest value", "[picture]") {
  const Picture grey =
      parse_picture(png(PNG_FORMAT_GA, 4, 1, {127, 1, 128, 1, 255, 254, 1, 127}), "a");
  CHECK(grey.values == Values{0, 1, 254, 0});
}

TEST_CASE("a PNG file without its last chunk gives all its pixels", "[picture]") {
  constexpr size_t kLastChunk = 12;
  const std::string narrow = png(PNG_FORMAT_GRAY, 3, 2, {1, 2, 3, 4, 5, 255}),
                    wide = wide_png(1, 2, {0, 65535, 257, 1});
  for (const std::string& whole : {narrow, wide}) {
    const Picture expected = parse_picture(whole, "a"),
                  picture = parse_picture(whole.substr(0, whole.size() - kLastChunk), "a");
    CHECK(picture.values == expected.values);
    CHECK(picture.floats == expected.floats);
  }
}

TEST_CASE("picture files are recognised by their extension", "[picture]") {
  CHECK(is_picture("a/b.png"));
  CHECK(is_picture("B.PGM"));
  CHECK(is_picture("a.jpg"));
  CHECK(is_picture("a.JPEG"));
  CHECK(is_picture("a.ppm"));
  CHECK(is_picture("a.pnm"));
  CHECK_FALSE(is_picture("a.gif"));
  CHECK_FALSE(is_picture("png"));
}
