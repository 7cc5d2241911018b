#include "runtime/data/binary_dataset.h"

#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "runtime/data/binary_format.h"
#include "runtime/data/binary_writer.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::string_literals;

namespace {

const Dataset kBytes = make_dataset({1, 1, 2}, 4, std::vector<uint8_t>{1, 2, 3, 255}, {3, 0});
const Dataset kFloats =
    make_dataset({2, 1, 1}, 1, std::vector<float>{0.5f, -1, 3e38f, 0, 1, 2}, {0, 0, 0});

/// Two samples of 1 x 1 x 2 with the classes of both pixels.
Dataset with_masks(std::vector<uint8_t> rows, uint32_t classes = 3) {
  Dataset dataset{
      {1, 1, 2}, classes, PixelRows<uint8_t>(std::move(rows), 4), std::vector<uint32_t>(2)};
  dataset.has_masks = true;
  return dataset;
}

const Dataset kMasks = with_masks({9, 8, 0, 2, 7, 6, 255, 1});

std::string content_of(const Dataset& dataset, size_t chunk_bytes = kChunkBytes) {
  const test::TempDir folder;
  write_binary_dataset(folder.path() / "train.dlset", dataset, chunk_bytes);
  return read_file(folder.path() / "train.dlset");
}

/// Returns `content` with `bytes` at `offset` and a correct hash.
std::string changed(std::string content, size_t offset, const std::string& bytes) {
  content.replace(offset, bytes.size(), bytes);
  return content.replace(40, 64, sha256_hex(content.substr(0, 40) + content.substr(104)));
}

std::string dataset_error(const std::string& content) {
  return test::error_of([&] { parse_binary_dataset(shared_bytes(content), "file"); },
                        Errc::Corrupt);
}

/// Checks that `content` is refused if any byte is changed, or if it is cut off anywhere.
void check_damage_is_refused(const std::string& content) {
  for (size_t i = 0; i < content.size(); ++i) {
    std::string damaged = content;
    damaged[i] ^= 1;
    CAPTURE(i);
    CHECK(dataset_error(damaged) != "");
    CHECK(dataset_error(content.substr(0, i)) != "");
  }
}

}  // namespace

TEST_CASE("a data set is read from its file as it was written", "[data]") {
  const test::TempDir folder;
  for (const Dataset& dataset : {kBytes, kFloats, kMasks, Dataset{{1, 2, 3}, 0, {}, {}}}) {
    write_binary_dataset(folder.path() / "train.dlset", dataset);
    CHECK(read_binary_dataset(folder.path() / "train.dlset") == dataset);
    CHECK(read_binary_dataset(folder.path() / "train.dlset", Proof::Structure) == dataset);
  }
}

TEST_CASE("masks follow their images, without labels before them", "[data]") {
  const std::string content = content_of(kMasks);
  CHECK(content[8] == 4);
  CHECK(content.substr(128, 8) == "\x09\x08\x00\x02\x07\x06\xff\x01"s);
  CHECK(content.size() == 128 + 8 + 2 * 64);
  const Dataset floats = [] {
    Dataset dataset{
        {1, 1, 1}, 2, PixelRows<float>({0.5f, 1, -2, 255}, 2), std::vector<uint32_t>(2)};
    dataset.has_masks = true;
    return dataset;
  }();
  CHECK(parse_binary_dataset(shared_bytes(content_of(floats)), "file") == floats);
  const SampleSource source = source_of(kMasks);
  CHECK(binary_dataset_bytes(source, 0, 2) == content.size());
}

TEST_CASE("a mask with an unknown class is damaged", "[data]") {
  CHECK(dataset_error(content_of(with_masks({9, 8, 0, 3, 7, 6, 255, 1}))) ==
        "file: sample 0 has 3 in its mask, but there are 3 classes");
  CHECK(dataset_error(content_of(with_masks({9, 8, 0, 0, 7, 6, 0, 0}, 256))) ==
        "file: has masks of 256 classes, but they can have 1 to 255");
  CHECK(dataset_error(content_of(with_masks({9, 8, 0, 0, 7, 6, 0, 0}, 0))) ==
        "file: has masks of 0 classes, but they can have 1 to 255");
}

TEST_CASE("a packed file is on disk before it has its name", "[data]") {
  const test::TempDir folder;
  const auto order =
      test::order_of_syncs([&] { write_binary_dataset(folder.path() / "train.dlset", kBytes); });
  if (!order) return test::skip("processes cannot be traced here");
  CHECK(*order == "sync rename");
}

TEST_CASE("the file has the bytes described in docs/user/dlset.md", "[data]") {
  const std::string front =
      "DLFDATA\n\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\x02\0\0\0\x04\0\0\0"s;
  const std::string labels = "\x01\0\0\0"s + std::string(20, '\0') + "\x03\0\0\0\0\0\0\0"s;
  const std::string chunks = sha256_hex("\x01\x02"s) + sha256_hex("\x03\xff"s);
  const std::string rest =
      labels + "\x01\x02\x03\xff"s + chunks + sha256_hex(front + labels + chunks);
  CHECK(content_of(kBytes, 2) == front + sha256_hex(front + rest) + rest);
}

TEST_CASE("samples have targets instead of labels", "[data]") {
  const std::string front =
      "DLFDATA\n\x03\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0"s;
  const std::vector<float> numbers = {0.5f, -1, 3, 1e30f};
  const std::string targets =
      "\x02\0\0\0\x02\0\0\0"s + std::string(16, '\0') +
      std::string(reinterpret_cast<const char*>(numbers.data()), 4 * numbers.size());
  const std::string chunks = sha256_hex("\x01\x02\x03\x04"s);
  const std::string rest =
      targets + "\x01\x02\x03\x04"s + chunks + sha256_hex(front + targets + chunks);
  const Dataset dataset = make_dataset({2, 1, 1}, std::vector<uint8_t>{1, 2, 3, 4}, numbers, 2);
  const std::string content = content_of(dataset, 4);
  CHECK(content == front + sha256_hex(front + rest) + rest);
  CHECK(parse_binary_dataset(shared_bytes(content), "file") == dataset);
  CHECK(read_chunk_hashes(content, "file").of_chunks == chunks);
  check_damage_is_refused(content);
  CHECK(dataset.size() == 2);
  const std::vector<uint32_t> second = {1};
  CHECK(dataset.select(Subset::only({second, nullptr})).targets[0][1] == 1e30f);
}

TEST_CASE("targets that are not finite numbers are refused", "[data]") {
  const Dataset dataset = make_dataset({1, 1, 1}, std::vector<uint8_t>{1, 2}, {0, INFINITY}, 1);
  CHECK(dataset_error(content_of(dataset)) ==
        "file: sample 1 has a target that is not a finite number");
}

TEST_CASE("a file of version 1, without hashes of chunks, can still be read", "[data]") {
  const std::string head =
      "DLFDATA\n\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\x02\0\0\0\x04\0\0\0"s;
  const std::string rest = std::string(24, '\0') + "\x03\0\0\0\0\0\0\0\x01\x02\x03\xff"s;
  const std::string content = head + sha256_hex(head + rest) + rest;
  CHECK(parse_binary_dataset(shared_bytes(content), "file") == kBytes);
  CHECK_THROWS_WITH(read_chunk_hashes(content, "file"),
                    "file: of version 1, without hashes of its parts; pack it again: "
                    "dlflow data pack");
}

TEST_CASE("the hashes of chunks are read without the images, and verified", "[data]") {
  const std::string content = content_of(kFloats, 16);  // two images of two floats
  const ChunkHashes hashes = read_chunk_hashes(content, "file");
  const size_t images = 128 + 3 * 4;
  CHECK(hashes.of_chunks ==
        sha256_hex(content.substr(images, 16)) + sha256_hex(content.substr(images + 16, 8)));
  for (size_t i = 0; i < content.size(); ++i) {
    std::string damaged = content;
    damaged[i] ^= 1;
    const bool is_image = i >= images && i < images + 24;
    const bool is_hash_of_file = i >= 40 && i < 104;
    if (is_image || is_hash_of_file) {
      CHECK(read_chunk_hashes(damaged, "file").of_all == hashes.of_all);
    } else {
      CHECK_THROWS_AS(read_chunk_hashes(damaged, "file"), Error);
    }
  }
}

TEST_CASE("a file with any byte changed, or cut off anywhere, is refused", "[data]") {
  const std::string content = content_of(kBytes);
  check_damage_is_refused(content);
  CHECK_THAT(dataset_error(content + "x"), Catch::Contains("its header gives another number"));
}

TEST_CASE("a header is read without the rest of the file, even if that is damaged", "[data]") {
  const test::TempDir folder;
  const std::filesystem::path file = folder.path() / "train.dlset";
  const BinaryHeader header = write_binary_dataset(file, kFloats);
  CHECK(read_binary_header(file) == header);
  CHECK(header.num_samples == 3);
  CHECK(header.pixel_type == PixelType::Float);
  std::string damaged = read_file(file);
  damaged.back() ^= 1;
  write_file_atomic(file, damaged);
  CHECK(read_binary_header(file) == header);
  CHECK(read_binary_dataset(file, Proof::Structure).labels == kFloats.labels);
  CHECK_THROWS_WITH(read_binary_dataset(file), Catch::Contains("its SHA-256 does not match"));
  write_file_atomic(file, damaged.substr(0, 100));
  CHECK_THROWS_WITH(read_binary_header(file), Catch::Contains("is not a dlflow dataset"));
}

TEST_CASE("a file that claims 4 G classes is refused before memory is taken for them",
          "[data][attack]") {
  const std::string content = content_of(kBytes);
  const std::string all = changed(content, 36, "\xff\xff\xff\xff"s);
  CHECK(dataset_error(all) == "file: declares 4294967295 classes, which is more than 4194304");
  CHECK_THAT(dataset_error(changed(content, 36, "\x01\0\x40\0"s)),
             Catch::Contains("declares 4194305 classes"));
  CHECK(dataset_error(changed(content, 36, "\0\0\x40\0"s)) == "");

  const test::TempDir folder;
  const std::filesystem::path file = folder.write("train.dlset", all);
  CHECK_THROWS_WITH(read_binary_header(file), Catch::Contains("4294967295 classes"));
  CHECK_THROWS_WITH(open_dataset(folder.path(), Split::Train),
                    Catch::Contains("4294967295 classes"));
}

TEST_CASE("an impossible header is refused even if its hash is right", "[data]") {
  const std::string content = content_of(kBytes);
  CHECK_THAT(dataset_error(changed(content, 8, "\x08")), Catch::Contains("has version 8"));
  CHECK_THAT(dataset_error(changed(content, 104, "\0\0\0\0"s)), Catch::Contains("without samples"));
  CHECK_THAT(dataset_error(changed(content, 12, "\x05")), Catch::Contains("unknown type 5"));
  CHECK(dataset_error(changed(content, 128, "\x04")) ==
        "file: sample 0 has label 4, but there are 4 classes");
  // Sizes whose product overflows to the right one: 2^63 samples of 4 bytes each are 0 (mod 2^64).
  CHECK_THAT(dataset_error(changed(content, 16, "\0\0\0\0\0\0\0\x80"s)),
             Catch::Contains("another number"));
}
