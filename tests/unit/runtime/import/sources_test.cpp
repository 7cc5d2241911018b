#include "runtime/import/sources.h"

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_data.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

/// All that a source gives.
std::vector<std::string> images_of(const SampleSource& source) {
  std::vector<std::string> images;
  for (size_t i = 0; i < source.labels.size(); ++i) images.emplace_back(source.image(i));
  return images;
}

std::string pgm(char value) { return std::string("P5 2 1 255 ") + value + value; }

std::string error_of(const std::filesystem::path& source) {
  try {
    images_of(open_source(source, "", Split::Train).source);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a folder of folders is a class each, all in the order of their names", "[sources]") {
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

TEST_CASE("what does not belong to a folder of pictures is named", "[sources]") {
  const test::TempDir folder;
  CHECK_THAT(error_of(folder.path()), Catch::Contains("neither a data set nor folders of"));
  CHECK_THAT(error_of(folder.path() / "no"), Catch::Contains("there is no such file"));
  folder.write("cat/1.pgm", pgm('a'));
  CHECK(error_of(folder.path()).empty());
  const auto other = folder.write("dog/2.pgm", "P5 1 1 255 x");
  CHECK(error_of(folder.path()) ==
        other.string() + ": has 1 x 1 pixels in grey, " + (folder.path() / "cat/1.pgm").string() +
            " has 2 x 1 pixels in grey; --resize and --crop make them alike");
  folder.write("dog/1.gif", "");
  CHECK_THAT(error_of(folder.path()),
             Catch::Contains("dog/1.gif: is no JPEG, PNG, PGM or PPM picture"));
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

TEST_CASE("a folder that training could read gives its samples", "[sources]") {
  const test::TempDir folder;
  const Dataset dataset = test::tiny_dataset(7);
  write_binary_dataset(folder.path() / "test.dlset", dataset);
  const ImportedSplit split = open_source(folder.path(), "", Split::Test);
  CHECK(images_of(split.source) == images_of(source_of(dataset)));
  CHECK(split.source.labels == dataset.labels);
  CHECK_THAT(error_of(folder.path() / "test.dlset"), Catch::Contains("where are the labels of"));
}
