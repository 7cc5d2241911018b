#include "runtime/import/sources.h"

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "runtime/data/jpeg.h"
#include "runtime/data/names.h"
#include "runtime/import/checked_samples.h"
#include "runtime/import/split_by_name.h"
#include "runtime/import/turned_pictures.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/jpeg_file.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_data.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

/// All images of a source.
std::vector<std::string> images_of(const SampleSource& source) {
  std::vector<std::string> images;
  for (size_t i = 0; i < source.labels.size(); ++i) images.emplace_back(source.image(i));
  return images;
}

std::string pgm(char value) { return std::string("P5 2 1 255 ") + value + value; }

std::string source_error(const std::filesystem::path& source) {
  return test::error_of([&] { images_of(open_source(source, "", Split::Train).source); });
}

}  // namespace

TEST_CASE("each subfolder is a class, in the order of their names", "[sources]") {
  const test::TempDir folder;
  folder.write("dog/1.pgm", pgm('d'));
  folder.write("cat/2.pgm", pgm('b'));
  folder.write("cat/10.pgm", pgm('a'));
  folder.write("dog/.thumbs", "");
  folder.write("README", "");
  const ImportedSplit split = open_source(folder.path(), "", Split::Train);
  CHECK(split.classes == std::vector<std::string>{"cat", "dog"});
  CHECK(split.source.labels == std::vector<uint32_t>{0, 0, 1});
  CHECK(split.source.shape == ImageShape{1, 1, 2});
  CHECK(split.source.num_classes == 2);
  CHECK(images_of(split.source) == std::vector<std::string>{"aa", "bb", "dd"});
}

TEST_CASE("foreign files in a folder of pictures are named", "[sources]") {
  const test::TempDir folder;
  CHECK_THAT(source_error(folder.path()), Catch::Contains("neither a data set nor folders of"));
  CHECK_THAT(source_error(folder.path() / "no"), Catch::Contains("there is no such file"));
  folder.write("cat/1.pgm", pgm('a'));
  CHECK(source_error(folder.path()).empty());
  const auto other = folder.write("dog/2.pgm", "P5 1 1 255 x");
  CHECK(source_error(folder.path()) ==
        other.string() +
            ": has 1 x 1 pixels in grey; the commonest are 2 x 1 pixels in grey (1 of 2 pictures, "
            "such as " +
            (folder.path() / "cat/1.pgm").string() + "); write --resize 2x1");
  folder.write("dog/1.gif", "");
  CHECK_THAT(source_error(folder.path()),
             Catch::Contains("dog/1.gif: is not a JPEG, PNG, PGM or PPM picture"));
}

TEST_CASE("the first of sixty pictures is named as different if the others agree", "[sources]") {
  const test::TempDir folder;
  const auto odd = folder.write("cat/0.pgm", "P5 1 1 255 x");
  for (int i = 1; i < 60; ++i) folder.write("cat/" + std::to_string(i) + ".pgm", pgm('a'));
  const ImportedSplit split = open_source(folder.path(), "", Split::Train);
  const std::string told = test::error_of([&] {
    write_checked(split.source, "set", [&](const SampleSource& source) { images_of(source); });
  });
  CHECK_THAT(told, Catch::StartsWith(
                       "set: 1 of 60 samples cannot be used; repair it, or take it out: /") &&
                       Catch::Contains(odd.string() + ": has 1 x 1 pixels in grey; ") &&
                       Catch::Contains("are 2 x 1 pixels in grey (59 of 60 pictures, such as ") &&
                       Catch::EndsWith("); write --resize 2x1"));
}

TEST_CASE("a folder whose name is not valid for a class is refused", "[sources]") {
  for (const char* name : {"a\nb", "caf\xe9"}) {
    const test::TempDir folder;
    folder.write(std::string(name) + "/1.pgm", pgm('a'));
    CHECK_THAT(source_error(folder.path()),
               Catch::Contains(": the folder names a class, but its name ") &&
                   Catch::EndsWith("; rename it"));
  }
}

TEST_CASE("a file of names has one name per line, without byte order mark and line ends",
          "[names]") {
  using Names = std::vector<std::string>;
  const test::TempDir folder;
  CHECK(read_names(folder.path() / "none").empty());
  CHECK(read_names(folder.write("a", " cat\ndog \n")) == Names{" cat", "dog "});
  CHECK(read_names(folder.write("b",
                                "\xEF\xBB\xBF"
                                "cat\r\n\r\ndog\r\n\r\n\n")) == Names{"cat", "", "dog"});
  CHECK_THROWS_WITH(read_names(folder.write("c", "cat\nd\xe4g\n")),
                    Catch::EndsWith("c:2: is not UTF-8; convert the file with iconv"));
}

TEST_CASE("pictures that EXIF rotates are counted", "[sources]") {
  using namespace std::string_literals;
  if (!can_read_jpeg()) return test::skip("built without libjpeg");
  const auto turned = [](const std::string& jpeg, bool big_endian, char orientation) {
    const std::string tiff =
        big_endian ? "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0"s + orientation + "\0\0"s
                   : "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0"s + orientation + "\0\0\0"s;
    const std::string segment = "Exif\0\0"s + tiff;
    return jpeg.substr(0, 2) + "\xFF\xE1\0"s + char(segment.size() + 2) + segment + jpeg.substr(2);
  };
  const std::string jpeg = jpeg_file(test::scenery(8, 8));
  CHECK(exif_orientation(jpeg) == 1);
  CHECK(exif_orientation(turned(jpeg, true, 6)) == 6);
  CHECK(exif_orientation(turned(jpeg, false, 8)) == 8);
  CHECK(exif_orientation(turned(jpeg, false, 9)) == 1);
  const std::string whole = turned(jpeg, false, 8);
  for (size_t size = 0; size < 40; ++size) {
    CHECK(exif_orientation(std::string_view(whole).substr(0, size)) <= 8);
  }

  const test::TempDir folder;
  folder.write("cat/1.jpg", turned(jpeg, true, 1));
  const auto first = folder.write("cat/2.jpg", turned(jpeg, true, 6));
  folder.write("cat/3.jpg", turned(jpeg, false, 3));
  for (const bool keeps_jpeg : {false, true}) {
    ImportOptions options;
    options.keeps_jpeg = keeps_jpeg;
    const ImportedSplit split = open_source(folder.path(), "", Split::Train, options);
    images_of(split.source);
    CHECK(split.notes() ==
          std::vector<std::string>{
              first.string() + ": is stored turned or mirrored (EXIF), and so is 1 more; "
                               "they are packed as they are stored: turn them first, as mogrify "
                               "-auto-orient does"});
  }
}

TEST_CASE("files without images are refused", "[sources]") {
  const test::TempDir folder;
  const auto number = [](char value) { return std::string("\0\0\0", 3) + value; };
  const std::string image = std::string("\0\0\x08", 3), head = image + '\3';
  const auto no_pixels = folder.write("a", head + number(1) + number(0) + number(28));
  const auto no_samples = folder.write("b", head + number(0) + number(28) + number(28));
  const auto one_label = folder.write("c", image + '\1' + number(1) + '\0');
  const auto no_labels = folder.write("d", image + '\1' + number(0));
  CHECK_THROWS_WITH(open_source(no_pixels, one_label, Split::Train), Catch::Contains("no images"));
  CHECK_THROWS_WITH(open_source(no_samples, no_labels, Split::Train), Catch::Contains("no images"));
}

TEST_CASE("a folder of IDX files gives its samples", "[sources]") {
  using namespace std::string_literals;
  const test::TempDir folder;
  folder.write("train-images-idx3-ubyte", "\0\0\x08\3\0\0\0\2\0\0\0\1\0\0\0\2abcd"s);
  folder.write("train-labels-idx1-ubyte", "\0\0\x08\1\0\0\0\2\7\3"s);
  const ImportedSplit split = open_source(folder.path(), "", Split::Train);
  CHECK(images_of(split.source) == std::vector<std::string>{"ab", "cd"});
  CHECK(split.source.labels == std::vector<uint32_t>{7, 3});
}

TEST_CASE("a folder of packed data gives its samples", "[sources]") {
  const test::TempDir folder;
  const Dataset dataset = test::tiny_dataset(7);
  write_binary_dataset(folder.path() / "test.dlset", dataset);
  const ImportedSplit split = open_source(folder.path(), "", Split::Test);
  CHECK(images_of(split.source) == images_of(source_of(dataset)));
  CHECK(split.source.labels == dataset.labels);
  CHECK_THAT(source_error(folder.path() / "test.dlset"),
             Catch::Contains("where are the labels of"));
  folder.write("images/1.pgm", pgm('a'));  // the pictures that it may have been made from
  folder.write("masks/1.pgm", pgm('\1'));
  const ImportedSplit beside = open_source(folder.path(), "", Split::Test);
  CHECK_FALSE(beside.source.has_masks);
  CHECK(images_of(beside.source) == images_of(source_of(dataset)));
}

TEST_CASE("an unsuitable source is refused with what to do", "[sources]") {
  const test::TempDir folder;
  const auto error_of = [&](const std::string& source, const std::string& labels,
                            const ImportOptions& options = {}) {
    return test::error_of([&] {
      open_source(folder.path() / source, labels.empty() ? "" : folder.path() / labels,
                  Split::Train, options);
    });
  };
  folder.write("a.npz", "");
  folder.write("a.npy", "");
  folder.write("a.csv", "x,y\n1,2\n");
  folder.write("none.csv", "x,y\n");
  folder.write("cat/1.pgm", pgm('a'));
  folder.write("a.txt", "text");
  CHECK_THAT(error_of("a.txt", ""), Catch::EndsWith("a.txt is text: add --tokens bytes"));
  CHECK_THAT(error_of("a.npz", "a.npy"), Catch::Contains("python -m dlflow.convert"));
  CHECK_THAT(error_of("a.npy", "a.nc"), Catch::Contains("python -m dlflow.convert"));
  CHECK_THAT(error_of("a.npy", ""), Catch::Contains("where are the labels of "));
  CHECK_THAT(error_of("a.csv", "a.npy"), Catch::Contains("is a table, which is a single file"));
  CHECK_THAT(error_of("cat", "a.npy"), Catch::Contains("is a folder, which needs no labels"));
  ImportOptions columns;
  columns.columns = {{}, {"y"}, ""};
  CHECK(error_of("a.csv", "", columns).empty());
  CHECK_THAT(error_of("none.csv", "", columns), Catch::Contains("there are no rows in it"));
  CHECK_THAT(error_of("", "", columns), Catch::Contains("name columns of a .csv or .tsv file; "));
  ImportOptions resized;
  resized.reshaping = {32, {}, {}};
  CHECK_THAT(error_of("a.csv", "", resized), Catch::Contains("change pictures in folders"));
  CHECK(error_of("", "", resized).empty());
  folder.write("pics/train/cat/1.pgm", pgm('a'));
  CHECK_THAT(error_of("pics", ""), Catch::Contains("pack each split: dlflow data pack ") &&
                                       Catch::EndsWith("/pics/train -o FOLDER [--split test]"));
  write_binary_dataset(folder.path() / "train.dlset", test::tiny_dataset(3));
  CHECK_THAT(error_of("", "", resized), Catch::Contains("change pictures in folders"));
  ImportOptions ignoring;
  ignoring.ignored = 255;
  CHECK_THAT(error_of("", "", ignoring), Catch::Contains("--ignore is a value of masks; "));
}

TEST_CASE("a table's columns are chosen by their use", "[sources]") {
  const test::TempDir folder;
  ImportOptions options;
  options.columns = {{}, {"y"}, ""};
  for (const char* name : {"a.csv", "a.tsv"}) {
    const bool tabs = std::string(name) == "a.tsv";
    const auto file = folder.write(name, tabs ? "x\ty\n1\t2\n" : "x,y\n1,2\n");
    const ImportedSplit split = open_source(file, "", Split::Train, options);
    CHECK(split.columns == std::vector<std::string>{"feature x", "target y"});
    CHECK(split.source.targets == std::vector<float>{2});
  }
}

TEST_CASE("compressed IDX files are read", "[sources]") {
  const test::TempDir folder;
  const auto number = [](char value) { return std::string("\0\0\0", 3) + value; };
  const std::string image = std::string("\0\0\x08", 3);
  const std::string pixels = image + '\3' + number(1) + number(1) + number(2) + "ab";
  const std::string labels = image + '\1' + number(1) + '\4';
  const auto images = folder.write("images", pixels), one = folder.write("labels", labels);
  const ImportedSplit split = open_source(images, one, Split::Train);
  CHECK(images_of(split.source) == std::vector<std::string>{"ab"});
  CHECK(split.source.labels == std::vector<uint32_t>{4});
  for (const auto& file : {images, one})
    REQUIRE(std::system(("gzip " + file.string()).c_str()) == 0);
  const ImportedSplit packed =
      open_source(images.string() + ".gz", one.string() + ".gz", Split::Train);
  CHECK(images_of(packed.source) == std::vector<std::string>{"ab"});
  CHECK(packed.source.labels == std::vector<uint32_t>{4});
}

TEST_CASE("pictures of different colours are refused with what to do", "[sources]") {
  const test::TempDir folder;
  folder.write("cat/1.pgm", pgm('a'));
  const auto colour = folder.write("cat/2.ppm", "P6 2 1 255 abcdef");
  CHECK(source_error(folder.path()) ==
        colour.string() +
            ": has 2 x 1 pixels in colour; the commonest are 2 x 1 pixels "
            "in grey (1 of 2 pictures, such as " +
            (folder.path() / "cat/1.pgm").string() + "); convert them to one kind first");
}

TEST_CASE("JPEG files are kept unchanged, with the shape of their samples", "[sources]") {
  if (!can_read_jpeg()) return test::skip("built without libjpeg");
  const test::TempDir folder;
  const std::vector<std::string> files = {jpeg_file(test::scenery(40, 30, 1)),
                                          jpeg_file(test::scenery(33, 50, 3, 1)),
                                          jpeg_file(test::scenery(64, 48, 3, 2))};
  folder.write("cat/1.jpg", files[0]);  // grey, next to coloured ones
  folder.write("cat/2.jpeg", files[1]);
  folder.write("dog/1.jpg", files[2]);
  ImportOptions options;
  options.keeps_jpeg = true;
  options.reshaping = {32, {}, PictureSize{24, 20}};
  const ImportedSplit split = open_source(folder.path(), "", Split::Train, options);
  CHECK(split.source.pixel_type == PixelType::Jpeg);
  CHECK(split.source.shape == ImageShape{3, 20, 24});
  CHECK(split.source.reshaping == Reshaping{32});
  CHECK(images_of(split.source) == files);
  CHECK(split.source.encoded_sizes ==
        std::vector<uint64_t>{files[0].size(), files[1].size(), files[2].size()});
  CHECK(split.names == std::vector<std::string>{"cat/1.jpg", "cat/2.jpeg", "dog/1.jpg"});
  const SampleSource last = part_of(split.source, {2});
  CHECK(images_of(last) == std::vector{files[2]});
  CHECK(last.encoded_sizes == std::vector<uint64_t>{files[2].size()});

  options.reshaping.crop = {};
  const std::string told = test::error_of(
      [&] { images_of(open_source(folder.path(), "", Split::Train, options).source); });
  CHECK_THAT(told, Catch::Contains("cat/2.jpeg: has 32 x 48 pixels in colour; ") &&
                       Catch::EndsWith("); write --resize 42x32"));
}

TEST_CASE("JPEG files that cannot be kept are all reported at once", "[sources]") {
  if (!can_read_jpeg()) return test::skip("built without libjpeg");
  const test::TempDir folder;
  const std::string good = jpeg_file(test::scenery(40, 30));
  folder.write("cat/1.jpg", good.substr(0, good.size() / 2));
  folder.write("cat/2.jpg", good);
  folder.write("cat/3.png", "\x89PNG");
  folder.write("cat/4.jpg", jpeg_file(test::scenery(20, 30)));
  folder.write("dog/5.jpg", "");
  ImportOptions options;
  options.keeps_jpeg = true;
  options.reshaping.crop = PictureSize{24, 24};
  const ImportedSplit split = open_source(folder.path(), "", Split::Train, options);
  const std::string told = test::error_of([&] {
    write_checked(split.source, "set", [&](const SampleSource& source) { images_of(source); });
  });
  CHECK_THAT(
      told,
      Catch::StartsWith("set: 4 of 5 samples cannot be used") &&
          Catch::Contains("cat/1.jpg: is a damaged JPEG file") &&
          Catch::Contains("cat/3.png: is not a JPEG file, and --keep-jpeg keeps only these") &&
          Catch::Contains("cat/4.jpg: has 20 x 30 pixels, too few to crop to 24 x 24") &&
          Catch::Contains("dog/5.jpg: is not a JPEG file"));
}

TEST_CASE("only pictures can be kept as JPEG files", "[sources]") {
  const test::TempDir folder;
  write_binary_dataset(folder.path() / "train.dlset", test::tiny_dataset(7));
  ImportOptions options;
  options.keeps_jpeg = true;
  CHECK_THROWS_WITH(open_source(folder.path(), "", Split::Train, options),
                    Catch::Contains("--keep-jpeg keeps pictures in folders"));
}
