#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "runtime/data/binary_dataset.h"
#include "runtime/data/chunked_dataset.h"
#include "runtime/data/jpeg.h"
#include "runtime/data/jpeg_samples.h"
#include "runtime/data/loader.h"
#include "runtime/data/proven_images.h"
#include "runtime/data/sharded_dataset.h"
#include "tests/support/answers.h"
#include "tests/support/error_of.h"
#include "tests/support/jpeg_file.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

const std::vector<std::string>& files() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> pictures;
    for (uint32_t i = 0; i < 21; ++i) {
      pictures.push_back(test::jpeg_file(test::scenery(30 + 3 * i, 45 - i, i == 4 ? 1 : 3, i)));
    }
    return pictures;
  }();
  return all;
}

/// A source of arbitrary bytes: a picture is only decoded when its sample is read.
SampleSource source_of_files(const std::vector<std::string>& pictures,
                             ImageShape shape = {3, 16, 24}) {
  SampleSource source;
  source.shape = shape;
  source.num_classes = 3;
  source.pixel_type = PixelType::Jpeg;
  for (size_t i = 0; i < pictures.size(); ++i) source.labels.push_back(uint32_t(i % 3));
  source.image = [&pictures](size_t sample) { return std::string_view(pictures[sample]); };
  for (const std::string& picture : pictures) source.encoded_sizes.push_back(picture.size());
  source.reshaping.shorter_side = 26;
  return source;
}

const std::vector<std::string> kNames = {"abc", "d", "efghijk"};

std::string written_pictures(const SampleSource& source) {
  const test::TempDir folder;
  write_binary_dataset(folder.path() / "train.dlset", source, 0, source.size());
  return read_file(folder.path() / "train.dlset");
}

std::string jpeg_error(const std::string& content) {
  return test::error_of(
      [&] { parse_binary_dataset(shared_bytes(content), "file", Proof::Structure); },
      Errc::Corrupt);
}

LoaderOptions jpeg_options(const Dataset& dataset) {
  LoaderOptions options;
  options.division.global_batch = 8;
  options.division.num_leaves = 4;
  options.own_leaves = 4;
  options.seed = 5;
  options.normalization = {std::vector(dataset.shape.channels, 0.5f),
                           std::vector(dataset.shape.channels, 1.0f)};
  options.augmentation = {1, true, 0.3, 10, 0.2, 0.2, 0.2, 4};
  return options;
}

std::vector<float> images_of(Loader& loader, int num_batches) {
  std::vector<float> images;
  for (int i = 0; i < num_batches; ++i) {
    for (const Leaf& leaf : loader.next().leaves) {
      images.insert(images.end(), leaf.images.begin(), leaf.images.end());
    }
  }
  return images;
}

Dataset dataset_of_files() {
  return parse_binary_dataset(shared_bytes(written_pictures(source_of_files(files()))), "a");
}

}  // namespace

TEST_CASE("pictures are read from a file as they were written", "[data]") {
  const std::string content = written_pictures(source_of_files(kNames));
  CHECK(content.size() == 128 + 3 * 8 + 3 * 4 + 11 + 2 * 64);
  const Dataset read = parse_binary_dataset(shared_bytes(content), "set/train.dlset");
  CHECK(read.shape == ImageShape{3, 16, 24});
  CHECK(read.reshaping.shorter_side == 26u);
  CHECK(read.labels.copy() == std::vector<uint32_t>{0, 1, 2});
  const auto& pictures = std::get<EncodedImages>(read.pixels);
  REQUIRE(pictures.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(std::string(pictures[i].begin(), pictures[i].end()) == kNames[i]);
  }
  CHECK(pictures.name_of(2) == "set/train.dlset: sample 2");
  CHECK(written_pictures(source_of(read)) == content);

  SampleSource resized = source_of_files(kNames);
  resized.reshaping = {{}, PictureSize{40, 30}, {}};
  CHECK(parse_binary_dataset(shared_bytes(written_pictures(resized)), "a").reshaping ==
        resized.reshaping);
}

TEST_CASE("samples of a subset or a shard keep their numbers", "[data]") {
  const test::TempDir folder;
  const SampleSource source = source_of_files(kNames);
  write_sharded_dataset(folder.path(), "train", source, 2);
  const Dataset whole = open_dataset(folder.path(), Split::Train);
  const auto& pictures = std::get<EncodedImages>(whole.pixels);
  CHECK(pictures == std::get<EncodedImages>(
                        parse_binary_dataset(shared_bytes(written_pictures(source)), "a").pixels));
  CHECK_THAT(pictures.name_of(2), Catch::EndsWith("train-00001-of-00002.dlset: sample 0"));
  const std::vector<uint32_t> last = {2};
  const Dataset one = whole.select(Subset::only({last, nullptr}));
  CHECK(one.reshaping == whole.reshaping);
  const auto picture = std::get<EncodedImages>(one.pixels)[0];
  CHECK(std::string(picture.begin(), picture.end()) == "efghijk");
  CHECK_THAT(std::get<EncodedImages>(one.pixels).name_of(0), Catch::EndsWith("sample 0"));
}

TEST_CASE("shards of pictures are not larger than requested", "[data]") {
  std::vector<std::string> pictures;
  for (size_t i = 0; i < 40; ++i) pictures.emplace_back(50 + 70 * (i % 7), 'a');
  const SampleSource source = source_of_files(pictures);
  const uint64_t largest = binary_dataset_bytes(source, 6, 1);
  for (const uint64_t bytes : {largest, largest + 400, 4 * largest, uint64_t{1} << 20}) {
    const uint64_t num_shards = shards_of_at_most(bytes, source);
    size_t first = 0;
    for (const uint64_t count : shard_sizes(source.size(), num_shards)) {
      CHECK(binary_dataset_bytes(source, first, count) <= bytes);
      first += count;
    }
  }
  CHECK(shards_of_at_most(uint64_t{1} << 20, source) == 1);
  CHECK_THROWS_AS(shards_of_at_most(largest - 1, source), Error);
}

TEST_CASE("an index that does not fit its pictures is refused", "[data]") {
  const std::string content = written_pictures(source_of_files(kNames));
  const auto changed = [&](size_t at, uint64_t value, size_t bytes) {
    std::string other = content;
    for (size_t i = 0; i < bytes; ++i) other[at + i] = char(value >> (8 * i));
    return other;
  };
  CHECK(jpeg_error(content).empty());
  test::check_mentions(jpeg_error, {{changed(128, 0, 8), "sample 0 ends at byte 0 of 11"},
                                    {changed(128, 5, 8), "sample 1 ends at byte 4 of 11"},
                                    {changed(136, UINT64_MAX, 8), "sample 1 ends at byte"},
                                    {changed(144, 10, 8), "1 bytes after its last sample"},
                                    {changed(112, 12, 8), "its header gives another number"},
                                    {changed(112, UINT64_MAX, 8), "gives another number"},
                                    {changed(16, UINT64_MAX / 8, 8), "gives another number"},
                                    {changed(24, 2, 4), "JPEG files of 2 channels"},
                                    {changed(28, 0, 4), "a picture has 1 to"},
                                    {changed(12, 0, 4), "pixels of unknown type"},
                                    {changed(120, 1 << 20, 4), "a picture has 1 to"}});
}

TEST_CASE("each chunk of pictures has a hash, and is found by a picture's address", "[data]") {
  const test::TempDir folder;
  const std::vector<std::string> pictures = {"abc", "defgh", "i", "jklmnopqrstu", "vw"};
  const SampleSource source = source_of_files(pictures);
  write_binary_dataset(folder.path() / "train.dlset", source, 0, 5, 9);  // 2 per chunk
  const ChunkedDataset chunked(folder.path(), Split::Train);
  REQUIRE(chunked.num_chunks() == 3);
  const std::string content = read_file(folder.path() / "train.dlset");
  for (size_t i = 0; i < 3; ++i) {
    const Chunk chunk = chunked.chunk(i);
    const std::string expected[] = {"abcdefgh", "ijklmnopqrstu", "vw"};
    CHECK(content.substr(chunk.offset, chunk.bytes) == expected[i]);
    CHECK(sha256_hex(expected[i]) == chunk.sha256);
  }
  const auto& images = std::get<EncodedImages>(chunked.dataset().pixels);
  const uint32_t chunks[] = {0, 0, 1, 1, 2}, offsets[] = {0, 3, 0, 1, 0};
  for (size_t i = 0; i < 5; ++i) {
    const ImagePlace place = chunked.place_of(images[i].data());
    CHECK(place.chunk == chunks[i]);
    CHECK(place.offset == offsets[i]);
  }
}

TEST_CASE("pictures that were damaged after packing are found by their hash", "[data]") {
  const test::TempDir folder;
  write_binary_dataset(folder.path() / "train.dlset", source_of_files(kNames), 0, 3, 1);
  {
    std::fstream file(folder.path() / "train.dlset",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(128 + 3 * 8 + 3 * 4 + 3);  // sample 1
    file.put('?');
  }
  const auto chunked = std::make_shared<const ChunkedDataset>(folder.path(), Split::Train);
  alignas(8) std::byte record[64] = {};
  REQUIRE(ProvenImages::record_bytes(*chunked) <= sizeof(record));
  ProvenImages proven(chunked, record);
  const auto& images = std::get<EncodedImages>(chunked->dataset().pixels);
  CHECK_NOTHROW(proven.check(images[0].data()));
  CHECK_THROWS_WITH(proven.check(images[1].data()), Catch::Contains("are damaged"));
}

TEST_CASE("pictures give the same samples on any number of ranks and threads", "[data][threads]") {
  if (!can_read_jpeg()) return test::skip("built without libjpeg");
  const Dataset dataset = dataset_of_files();
  LoaderOptions options = jpeg_options(dataset);
  Loader alone(dataset, options);
  const std::vector<float> expected = images_of(alone, 6);  // two epochs
  REQUIRE(expected.size() == 2 * 21 * dataset.shape.num_values());
  const size_t threads = GENERATE(1, 2, 5), prefetch = GENERATE(0, 2);
  options.threads = threads;
  options.prefetch = prefetch;
  Loader with_threads(dataset, options);
  CHECK(images_of(with_threads, 6) == expected);
  with_threads.seek(1, 0);
  CHECK(images_of(with_threads, 3) ==
        std::vector(expected.begin() + std::ptrdiff_t(expected.size() / 2), expected.end()));

  options.own_leaves = 1;
  std::vector<std::unique_ptr<Loader>> ranks;
  for (options.first_leaf = 0; options.first_leaf < 4; ++options.first_leaf) {
    ranks.push_back(std::make_unique<Loader>(dataset, options));
  }
  std::vector<float> joined;
  for (int step = 0; step < 6; ++step) {
    for (auto& rank : ranks) {
      const std::vector<float> part = images_of(*rank, 1);
      joined.insert(joined.end(), part.begin(), part.end());
    }
  }
  CHECK(joined == expected);
}

TEST_CASE("the number of threads does not change samples in bytes, even mixed ones",
          "[data][threads]") {
  std::vector<uint8_t> pixels(30 * 3 * 4 * 4);
  std::vector<uint32_t> labels(30);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = uint8_t(i * 7);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = uint32_t(i % 3);
  const Dataset dataset = make_dataset({3, 4, 4}, 3, std::move(pixels), std::move(labels));
  LoaderOptions options = jpeg_options(dataset);
  options.augmentation.mixup = 0.5;
  options.num_classes = 3;
  Loader alone(dataset, options);
  options.threads = 4;
  options.prefetch = GENERATE(0, 2);
  Loader together(dataset, options);
  CHECK(images_of(together, 8) == images_of(alone, 8));
}

TEST_CASE("a picture that cannot be decoded ends the loading, named by file and sample",
          "[data][threads]") {
  if (!can_read_jpeg()) return test::skip("built without libjpeg");
  std::vector<std::string> pictures = files();
  pictures[11].resize(pictures[11].size() / 2);
  pictures[13] = "no picture";
  const Dataset dataset = parse_binary_dataset(
      shared_bytes(written_pictures(source_of_files(pictures))), "set/train.dlset");
  LoaderOptions options = jpeg_options(dataset);
  options.shuffle = false;
  options.augmentation = {};
  options.threads = GENERATE(1, 4);
  options.prefetch = GENERATE(0, 2);
  Loader loader(dataset, options);
  loader.next();
  CHECK_THROWS_WITH(loader.next(), Catch::StartsWith("set/train.dlset: sample 11: is a damaged"));
}

TEST_CASE("pictures without changes are reshaped, and their mean is that of the loaded samples",
          "[data]") {
  if (!can_read_jpeg()) return test::skip("built without libjpeg");
  const Dataset dataset = dataset_of_files();
  LoaderOptions options = jpeg_options(dataset);
  options.augmentation = {};
  options.shuffle = false;
  options.division = {0, 21};
  options.own_leaves = 1;
  options.normalization = normalization_of(dataset);
  Loader loader(dataset, options);
  const std::vector<float> images = images_of(loader, 1);
  double sum = 0, squares = 0;
  for (const float value : images) {
    sum += double(value);
    squares += double(value) * double(value);
  }
  CHECK(std::abs(sum / double(images.size())) < 1e-4);
  CHECK(std::abs(squares / double(images.size()) - 1) < 1e-4);
  std::vector<uint8_t> sample(dataset.shape.num_values());
  JpegSamples samples;
  write_as_reshaped(dataset, std::get<EncodedImages>(dataset.pixels)[3], "a", samples,
                    sample.data());
  for (size_t i = 0; i < sample.size(); ++i) {
    const size_t channel = i / (16 * 24);
    REQUIRE(images[3 * sample.size() + i] ==
            float(sample[i]) * options.normalization.scale[channel] +
                options.normalization.shift[channel]);
  }
}

TEST_CASE("a picture that is too small for its crop is refused when it is loaded", "[data]") {
  if (!can_read_jpeg()) return test::skip("built without libjpeg");
  SampleSource source = source_of_files(files());
  source.reshaping = {};
  source.shape = {3, 40, 40};
  const Dataset dataset = parse_binary_dataset(shared_bytes(written_pictures(source)), "a");
  JpegSamples samples;
  std::vector<uint8_t> sample(dataset.shape.num_values());
  const auto& pictures = std::get<EncodedImages>(dataset.pixels);
  CHECK_THROWS_WITH(
      write_as_reshaped(dataset, pictures[0], pictures.name_of(0), samples, sample.data()),
      Catch::StartsWith("a: sample 0: has 30 x 45 pixels, too few to crop to 40 x 40"));
}
