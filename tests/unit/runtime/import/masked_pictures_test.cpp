#include "runtime/import/masked_pictures.h"

#include <png.h>

#include <cstring>

#include "base/error.h"
#include "runtime/import/checked_samples.h"
#include "runtime/import/mask.h"
#include "runtime/import/npy.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/runtime/import/png_file.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::string_literals;

namespace {

using MaskValues = std::vector<uint8_t>;

/// A PNG file with rows of `width` values packed with `depth` bits, grey or with a palette.
std::string mask_png(int color, int depth, uint32_t width, const std::vector<std::string>& rows) {
  return test::png_file([&](png_structp file, png_infop info) {
    png_set_IHDR(file, info, width, uint32_t(rows.size()), depth, color, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    const std::vector<png_color> palette(size_t{1} << std::min(depth, 8), {200, 100, 50});
    if (color == PNG_COLOR_TYPE_PALETTE) {
      png_set_PLTE(file, info, palette.data(), int(palette.size()));
    }
    png_write_info(file, info);
    for (const std::string& row : rows) {
      png_write_row(file, reinterpret_cast<png_const_bytep>(row.data()));
    }
  });
}

std::string mask_pgm(const std::string& values, int width) {
  return "P5 " + std::to_string(width) + " " + std::to_string(int(values.size()) / width) +
         " 255 " + values;
}

std::string mask_error(const std::string& content) {
  return test::error_of([&] { parse_mask(content, "a.png"); }, Errc::Corrupt);
}

/// The errors of packing, one per line; empty if there are none.
std::string mistakes_of(const std::filesystem::path& folder, const ImportOptions& options = {}) {
  return test::error_of([&] {
    const SampleSource source = open_source(folder, "", Split::Train, options).source;
    write_checked(source, "set", [](const SampleSource& checked) {
      for (size_t i = 0; i < checked.size(); ++i) checked.image(i);
    });
  });
}

/// Writes a picture of 2 x 1 pixels and its mask.
void write_pair(const test::TempDir& folder, const std::string& name, const std::string& mask) {
  folder.write("images/" + name + ".pgm", mask_pgm("ab", 2));
  folder.write("masks/" + name + ".png", mask_png(PNG_COLOR_TYPE_GRAY, 8, 2, {mask}));
}

std::string mask_npy(const std::string& type, const std::string& shape, const std::string& values) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize((10 + header.size() + 64) / 64 * 64 - 11, ' ');
  return "\x93NUMPY\x01\0"s + char((header.size() + 1) & 255) + char((header.size() + 1) >> 8) +
         header + '\n' + values;
}

}  // namespace

TEST_CASE("a mask has the values of its file, grey or of a palette", "[mask]") {
  for (const int color : {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_PALETTE}) {
    CHECK(parse_mask(mask_png(color, 8, 3, {"\x00\x07\xff"s, "\x01\x02\x03"}), "a").classes ==
          MaskValues{0, 7, 255, 1, 2, 3});
    CHECK(parse_mask(mask_png(color, 8, 1, {"a", "b", "c"}), "a").classes ==
          MaskValues{'a', 'b', 'c'});
    CHECK(parse_mask(mask_png(color, 4, 3, {"\x1f\x20"s}), "a").classes == MaskValues{1, 15, 2});
    CHECK(parse_mask(mask_png(color, 2, 3, {"\xe4"}), "a").classes == MaskValues{3, 2, 1});
    CHECK(parse_mask(mask_png(color, 1, 3, {"\xa0"}), "a").classes == MaskValues{1, 0, 1});
  }
  const Mask mask = parse_mask(mask_pgm("\x00\x01\x02\x03"s, 2), "a");
  CHECK(mask.shape() == ImageShape{1, 2, 2});
  CHECK(mask.classes == MaskValues{0, 1, 2, 3});
}

TEST_CASE("a file that is not a mask is refused", "[mask]") {
  CHECK(mask_error("GIF89a") == "a.png: is not a mask: neither a PNG nor a binary PGM file");
  CHECK_THAT(mask_error(mask_png(PNG_COLOR_TYPE_RGB, 8, 1, {"abc"})),
             Catch::Contains("is in colour"));
  CHECK_THAT(mask_error(mask_png(PNG_COLOR_TYPE_GRAY, 16, 1, {"ab"})),
             Catch::Contains("16 bits a value"));
  const std::string whole = mask_png(PNG_COLOR_TYPE_GRAY, 8, 3, {"abc", "def"});
  for (size_t size = 8; size + 12 < whole.size(); ++size) {
    CHECK_THAT(mask_error(whole.substr(0, size)), Catch::Contains("is a damaged PNG file"));
  }
}

TEST_CASE("a mask is reshaped as its picture, by the nearest pixels", "[mask]") {
  const Mask mask{2, 4, {0, 1, 2, 3, 4, 5, 6, 7}};
  CHECK(reshape(mask, {{}, PictureSize{2, 1}, {}}, "a").classes == MaskValues{5, 7});
  CHECK(reshape(mask, {{}, PictureSize{8, 2}, {}}, "a").classes ==
        MaskValues{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7});
  CHECK(reshape(mask, {{}, {}, PictureSize{2, 2}}, "a").classes == MaskValues{1, 2, 5, 6});
  const Mask larger = reshape(mask, {4, {}, {}}, "a");
  CHECK(larger.shape() == ImageShape{1, 4, 8});
}

TEST_CASE("a picture and the mask of its name make a sample, in the order of names", "[mask]") {
  const test::TempDir folder;
  write_pair(folder, "b", "\x01\xff"s);
  write_pair(folder, "a", "\x00\x04"s);
  folder.write("images/.thumbs", "");
  const ImportedSplit split = open_source(folder.path(), "", Split::Train);
  CHECK(split.source.has_masks);
  CHECK(split.source.num_classes == 5);
  CHECK(split.source.shape == ImageShape{1, 1, 2});
  CHECK(split.names == std::vector<std::string>{"a.pgm", "b.pgm"});
  CHECK(split.source.image(0) == "ab\x00\x04"s);
  CHECK(split.source.image(1) == "ab\x01\xff"s);
  ImportOptions options;
  options.ignored = 4;
  const ImportedSplit ignoring = open_source(folder.path(), "", Split::Train, options);
  CHECK(ignoring.source.num_classes == 2);
  CHECK(ignoring.source.image(0) == "ab\x00\xff"s);
}

TEST_CASE("classes.txt names the classes of masks", "[mask]") {
  const test::TempDir folder;
  write_pair(folder, "a", "\x00\x01"s);
  folder.write("classes.txt", "sky\nroad\ncar\n");
  const ImportedSplit split = open_source(folder.path(), "", Split::Train);
  CHECK(split.source.num_classes == 3);
  CHECK(split.classes == std::vector<std::string>{"sky", "road", "car"});
  write_pair(folder, "b", "\x00\x03"s);
  CHECK_THAT(mistakes_of(folder.path()),
             Catch::Contains("b.png: has 3 in row 0, column 1, but classes.txt names 3 classes; "
                             "--ignore 3 leaves such pixels out"));
}

TEST_CASE("all pictures without a valid mask are reported at once", "[mask]") {
  const test::TempDir folder;
  write_pair(folder, "a", "\x00\x01"s);
  folder.write("images/b.pgm", mask_pgm("ab", 2));
  folder.write("images/c.pgm", mask_pgm("abcd", 2));
  folder.write("masks/c.png", mask_png(PNG_COLOR_TYPE_GRAY, 8, 2, {"\x00\x01"s}));
  folder.write("images/d.pgm", mask_pgm("ab", 2));
  folder.write("masks/d.png", mask_png(PNG_COLOR_TYPE_RGB, 8, 2, {"abcdef"}));
  const std::string text = mistakes_of(folder.path());
  CHECK_THAT(text, Catch::Contains("set: 3 of 4 samples cannot be used"));
  CHECK_THAT(text, Catch::Contains("b.pgm: has no mask b.png in masks"));
  CHECK_THAT(
      text,
      Catch::Contains(
          "c.png: has 2 x 1 pixels; the resized mask would not have the size of its picture"));
  CHECK_THAT(text, Catch::Contains("d.png: is in colour"));
}

TEST_CASE("a mask without a picture, and two pictures of one name, are refused", "[mask]") {
  const test::TempDir folder;
  write_pair(folder, "a", "\x00\x01"s);
  const auto lone = folder.write("masks/z.png", "");
  CHECK_THAT(mistakes_of(folder.path()), Catch::Contains("z.png is the mask of no picture in "));
  std::filesystem::remove(lone);
  folder.write("images/a.png", "");
  CHECK_THAT(mistakes_of(folder.path()), Catch::Contains("have the same name"));
}

TEST_CASE("pictures of 16 bits can have masks, stored after their floats", "[mask]") {
  const test::TempDir folder;
  folder.write("images/a.png", mask_png(PNG_COLOR_TYPE_GRAY, 16, 2, {"\x01\x01\x02\x02"}));
  folder.write("masks/a.png", mask_png(PNG_COLOR_TYPE_GRAY, 8, 2, {"\x03\xff"s}));
  const ImportedSplit split = open_source(folder.path(), "", Split::Train);
  CHECK(split.source.pixel_type == PixelType::Float);
  std::vector<float> values(4);
  const std::string_view bytes = split.source.image(0);
  REQUIRE(bytes.size() == values.size() * sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  CHECK(values == std::vector<float>{1, 2, 3, 255});
  write_pair(folder, "b", "\x00\x01"s);
  CHECK_THAT(mistakes_of(folder.path()),
             Catch::Contains("1 of 2 samples") && Catch::Contains("b.pgm: has 2 x 1 pixels"));
}

TEST_CASE("the other pictures are not compared with an unreadable one", "[mask]") {
  const test::TempDir folder;
  write_pair(folder, "b", "\x00\x01"s);
  write_pair(folder, "c", "\x00\x01"s);
  folder.write("images/a.pgm", "P5 7");
  folder.write("masks/a.png", mask_png(PNG_COLOR_TYPE_GRAY, 8, 2, {"\x00\x01"s}));
  folder.write("images/d.pgm", mask_pgm("abcd", 2));
  folder.write("masks/d.png", mask_png(PNG_COLOR_TYPE_GRAY, 8, 2, {"\x00\x01"s, "\x00\x01"s}));
  const std::string text = mistakes_of(folder.path());
  CHECK_THAT(text, Catch::Contains("2 of 4 samples") && Catch::Contains("a.pgm: has no header"));
  CHECK_THAT(text, Catch::Contains("d.pgm: has 2 x 2 pixels in grey; ") &&
                       Catch::Contains("2 x 1 pixels in grey (2 of 4 pictures, such as ") &&
                       Catch::Contains("b.pgm); write --resize 2x1"));
  for (const char* name : {"b", "c", "d"}) {
    std::filesystem::remove(folder.path() / "images" / (std::string(name) + ".pgm"));
    std::filesystem::remove(folder.path() / "masks" / (std::string(name) + ".png"));
  }
  CHECK_THAT(mistakes_of(folder.path()), Catch::Contains("1 of 1 samples"));
}

TEST_CASE("pictures are compared with the majority, and --resize is not advised for colours",
          "[mask]") {
  const test::TempDir folder;
  for (const char* name : {"b", "c"}) write_pair(folder, name, "\x00\x01"s);
  folder.write("images/a.ppm", "P6 2 1 255 abcdef");
  folder.write("masks/a.png", mask_png(PNG_COLOR_TYPE_GRAY, 8, 2, {"\x00\x01"s}));
  const std::string text = mistakes_of(folder.path());
  CHECK_THAT(text, Catch::Contains("1 of 3 samples") &&
                       Catch::Contains("a.ppm: has 2 x 1 pixels in colour; ") &&
                       Catch::Contains("b.pgm); convert them to one kind first"));
}

TEST_CASE("masks have 255 classes at most", "[mask]") {
  const test::TempDir folder;
  write_pair(folder, "a", "\x00\xfe"s);
  CHECK(open_source(folder.path(), "", Split::Train).source.num_classes == 255);
  std::string names;
  for (int i = 0; i < 256; ++i) names += "class" + std::to_string(i) + "\n";
  folder.write("classes.txt", names);
  CHECK_THROWS_WITH(open_source(folder.path(), "", Split::Train),
                    Catch::Contains(": 256 classes; masks have 255 at most"));
}

TEST_CASE("a pixel with an invalid class is reported with its row and column", "[mask]") {
  const test::TempDir folder;
  folder.write("classes.txt", "sky\nroad\n");
  folder.write("images/a.pgm", mask_pgm("abcdef", 2));
  folder.write("masks/a.pgm", mask_pgm("\x00\x01\x00\x01\x02\x03"s, 2));
  CHECK_THAT(mistakes_of(folder.path()), Catch::Contains("a.pgm: has 2 in row 2, column 0, but"));
  folder.write("masks/a.pgm", mask_pgm("\x00\x01\x00\x03\x02\x01"s, 2));
  CHECK_THAT(mistakes_of(folder.path()), Catch::Contains("a.pgm: has 3 in row 1, column 1, but"));
}

TEST_CASE("files of other kinds beside pictures and masks are refused by name", "[mask]") {
  const test::TempDir folder;
  write_pair(folder, "a", "\x00\x01"s);
  folder.write("images/b.gif", "GIF89a");
  folder.write("masks/b.png", mask_png(PNG_COLOR_TYPE_GRAY, 8, 2, {"\x00\x01"s}));
  folder.write("images/c.pgm", mask_pgm("ab", 2));
  folder.write("masks/c.jpg", "");
  const std::string text = mistakes_of(folder.path());
  CHECK_THAT(text, Catch::Contains("set: 2 of 3 samples cannot be used"));
  CHECK_THAT(text, Catch::Contains("b.gif: is not a JPEG, PNG, PGM or PPM picture; convert it"));
  CHECK_THAT(text, Catch::Contains("c.jpg: is not a PNG or PGM file, as masks must be"));
}

TEST_CASE("a number in a mask means a class, no class, or is invalid", "[mask]") {
  CHECK(class_of(0, {}) == 0);
  CHECK(class_of(254, {}) == 254);
  CHECK(class_of(255, {}) == kNoClass);
  CHECK(class_of(256, {}) == std::nullopt);
  CHECK(class_of(-1, {}) == std::nullopt);
  CHECK(class_of(7, 7) == kNoClass);
  CHECK(class_of(-1, -1) == kNoClass);
  CHECK(is_mask("a/b.png"));
  CHECK(is_mask("b.pgm"));
  CHECK_FALSE(is_mask("b.jpg"));
}

TEST_CASE("arrays of images and masks become samples", "[mask]") {
  const test::TempDir folder;
  const auto images = folder.write("images.npy", mask_npy("|u1", "(2, 1, 1, 2)", "abcd"));
  const auto masks =
      folder.write("masks.npy", mask_npy("<i2", "(2, 1, 2)", "\x00\x00\x03\x00\xff\xff\x01\x00"s));
  CHECK_THROWS_WITH(open_source(images, masks, Split::Train),
                    Catch::Contains("sample 1 has the value -1, but classes are 0 to 254; --ignore "
                                    "-1 leaves such pixels out"));
  ImportOptions options;
  options.ignored = -1;
  const SampleSource source = open_source(images, masks, Split::Train, options).source;
  CHECK(source.has_masks);
  CHECK(source.num_classes == 4);
  CHECK(source.size() == 2);
  CHECK(source.image(0) == "ab\x00\x03"s);
  CHECK(source.image(1) == "cd\xff\x01"s);
  const auto other = folder.write("other.npy", mask_npy("|u1", "(2, 2, 1)", "abcd"));
  CHECK_THROWS_WITH(
      open_source(images, other, Split::Train),
      Catch::Contains("has the shape (2, 2, 1), but masks of these images have (2, 1, 2)"));
  const auto floats =
      folder.write("floats.npy", mask_npy("<f4", "(2, 1, 2)", std::string(16, '\0')));
  CHECK_THROWS_WITH(open_source(images, floats, Split::Train), Catch::Contains("must be integers"));
  const auto wide = folder.write("wide.npy", mask_npy("<f4", "(2, 1, 2)", std::string(16, '\0')));
  const SampleSource of_floats = open_source(wide, masks, Split::Train, options).source;
  CHECK(of_floats.pixel_type == PixelType::Float);
  CHECK(of_floats.image(1) == std::string(8, '\0') + "\x00\x00\x7f\x43\x00\x00\x80\x3f"s);
  const auto doubles =
      folder.write("doubles.npy", mask_npy("<f8", "(2, 1, 2)", std::string(32, '\0')));
  CHECK_THROWS_WITH(open_source(doubles, masks, Split::Train, options),
                    Catch::Contains("has values of type <f8; write images.astype('uint8')"));
  const auto rows = folder.write("rows.npy", mask_npy("|u1", "(2, 2)", "abcd"));
  CHECK_THROWS_WITH(open_source(rows, masks, Split::Train, options),
                    Catch::Contains("is a table, (N, F), which has no masks"));
  const auto none = folder.write("none.npy", mask_npy("|u1", "(0, 1, 2)", ""));
  CHECK_THROWS_WITH(open_source(none, none, Split::Train),
                    Catch::Contains("there are no images in it"));
  const auto large =
      folder.write("large.npy", mask_npy("<u8", "(2, 1, 2)", std::string(31, '\0') + "\x80"));
  CHECK_THROWS_WITH(open_source(images, large, Split::Train),
                    Catch::Contains("sample 1 has the value 9223372036854775808,"));
  const auto rare = folder.write(
      "rare.npy", mask_npy("<u4", "(2, 1, 2)", std::string(12, '\0') + "\x01\x00\x00\x01"s));
  options.ignored = 0x1000001;  // not representable in single precision
  CHECK(open_source(images, rare, Split::Train, options).source.image(1) == "cd\x00\xff"s);
  const auto truths = folder.write("truths.npy", mask_npy("|b1", "(2, 1, 2)", "\0\1\1\0"s));
  CHECK(open_source(images, truths, Split::Train).source.image(0) == "ab\x00\x01"s);
  const auto labels = folder.write("labels.npy", mask_npy("|u1", "(2,)", "\x00\x01"s));
  CHECK_THROWS_WITH(open_source(images, labels, Split::Train, options),
                    Catch::Contains("--ignore is a value of masks; "));
}
