#include "runtime/data/idx.h"

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::string_literals;

namespace {

// Two images of 2 x 3 and their labels, byte by byte.
const std::string kImages =
    "\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x03"s + "\x01\x02\x03\x04\x05\x06\xff\0\0\0\0\x09"s;
const std::string kLabels = "\0\0\x08\x01\0\0\0\x02\x07\x03"s;

std::string error_of(const std::string& content) {
  return test::error_of([&] { parse_idx(content, "file"); }, Errc::Corrupt);
}

}  // namespace

TEST_CASE("a pair of IDX files becomes images and labels", "[data]") {
  const test::TempDir folder;
  const Dataset dataset =
      read_idx_pair(folder.write("images", kImages), folder.write("labels", kLabels));
  CHECK(dataset.shape == ImageShape{1, 2, 3});
  CHECK(dataset.labels == std::vector<uint32_t>{7, 3});
  CHECK(dataset.num_classes == 8);
  CHECK(dataset == make_dataset({1, 2, 3}, 8,
                                std::vector<uint8_t>{1, 2, 3, 4, 5, 6, 255, 0, 0, 0, 0, 9},
                                {7, 3}));
}

TEST_CASE("four dimensions are samples, channels, rows and columns", "[data]") {
  const test::TempDir folder;
  const auto images = folder.write(
      "images", "\0\0\x08\x04\0\0\0\x02\0\0\0\x03\0\0\0\x01\0\0\0\x02"s + kImages.substr(16));
  CHECK(read_idx_pair(images, folder.write("labels", kLabels)).shape == ImageShape{3, 1, 2});
}

TEST_CASE("invalid IDX files are refused with the reason", "[data]") {
  CHECK(error_of("") == "file: is not an IDX file: it does not begin with two zero bytes");
  CHECK(error_of("PNG....") == "file: is not an IDX file: it does not begin with two zero bytes");
  CHECK_THAT(error_of("\x1f\x8b\x08"), Catch::Contains("is still compressed; unpack it"));
  CHECK_THAT(error_of("\0\0\x0d\x01\0\0\0\x01...."s), Catch::Contains("values of type 13"));
  CHECK(error_of("\0\0\x08\0"s) == "file: has 0 dimensions; 1 to 4 can be read");
  CHECK(error_of("\0\0\x08\x05"s) == "file: has 5 dimensions; 1 to 4 can be read");
  CHECK(error_of(kImages.substr(0, 15)) == "file: ends within its header");
  CHECK(error_of(kImages.substr(0, 27)) ==
        "file: its header declares 2 x 2 x 3 bytes, but 11 follow; fetch it again");
  CHECK_THAT(error_of(kImages + "x"), Catch::Contains("but 13 follow"));
}

TEST_CASE("a product of dimensions beyond 64 bits is not mistaken for a small one", "[data]") {
  // 2^31 * 2^31 * 4 = 2^64 = 0 (mod 2^64)
  CHECK_THAT(error_of("\0\0\x08\x03\x80\0\0\0\x80\0\0\0\0\0\0\x04"s),
             Catch::Contains("but 0 follow"));
  CHECK(parse_idx("\0\0\x08\x02\0\0\0\0\xff\xff\xff\xff"s, "file").values.empty());
}

TEST_CASE("images and labels must be of the same number and shape", "[data]") {
  const test::TempDir folder;
  const auto images = folder.write("images", kImages), labels = folder.write("labels", kLabels);
  const auto one = folder.write("one", "\0\0\x08\x01\0\0\0\x01\x07"s);
  CHECK_THROWS_WITH(read_idx_pair(images, one),
                    Catch::EndsWith("one: has 1 labels for the 2 images of images"));
  CHECK_THROWS_WITH(read_idx_pair(labels, labels), Catch::Contains("images have 3 (N, H, W)"));
  CHECK_THROWS_WITH(read_idx_pair(images, images), Catch::EndsWith("labels have 1"));
}

TEST_CASE("a folder is opened by the file names of MNIST and its successors", "[data]") {
  const test::TempDir folder;
  CHECK_THROWS_WITH(open_dataset(folder.path(), Split::Train),
                    Catch::Contains("no training data: neither train.dlset nor "
                                    "train.shards.json nor train-images-idx3-ubyte"));
  folder.write("train-images-idx3-ubyte.gz", kImages);
  folder.write("train-labels-idx1-ubyte", kLabels);
  CHECK(open_dataset(folder.path(), Split::Train).size() == 2);
  CHECK_THROWS_WITH(open_dataset(folder.path(), Split::Test), Catch::Contains("no test data"));
}

TEST_CASE("a data set without images is refused", "[data]") {
  const test::TempDir folder;
  folder.write("t10k-images-idx3-ubyte", "\0\0\x08\x03\0\0\0\0\0\0\0\x02\0\0\0\x03"s);
  folder.write("t10k-labels-idx1-ubyte", "\0\0\x08\x01\0\0\0\0"s);
  CHECK_THROWS_WITH(open_dataset(folder.path(), Split::Test), Catch::Contains("holds no images"));
}
