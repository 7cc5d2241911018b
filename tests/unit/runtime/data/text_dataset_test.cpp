#include <algorithm>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "runtime/data/binary_dataset.h"
#include "runtime/data/chunked_dataset.h"
#include "runtime/data/loader.h"
#include "runtime/data/sharded_dataset.h"
#include "runtime/data/text_order.h"
#include "tests/support/answers.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_data.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

std::string written_texts(const SampleSource& source) {
  const test::TempDir folder;
  write_binary_dataset(folder.path() / "train.dlset", source, 0, source.size());
  return read_file(folder.path() / "train.dlset");
}

Dataset texts(size_t count) {
  return parse_binary_dataset(shared_bytes(written_texts(test::tiny_texts(count))), "a");
}

std::string texts_error(const std::string& content) {
  return test::error_of(
      [&] { parse_binary_dataset(shared_bytes(content), "file", Proof::Structure); },
      Errc::Corrupt);
}

LoaderOptions text_options(size_t batch) {
  LoaderOptions options;
  options.division.global_batch = batch;
  options.division.num_leaves = 4;
  options.own_leaves = 4;
  options.seed = 5;
  options.text_block = batch;
  options.normalization = {{1}, {0}};
  return options;
}

/// The row length, number of samples, lengths and tokens of each leaf of `batches`.
std::vector<std::vector<float>> leaves_of(Loader& loader, int batches) {
  std::vector<std::vector<float>> all;
  for (int i = 0; i < batches; ++i) {
    for (const Leaf& leaf : loader.next().leaves) {
      std::vector<float>& one = all.emplace_back(leaf.samples.begin(), leaf.samples.end());
      one.push_back(float(leaf.length));
      one.insert(one.end(), leaf.targets.begin(), leaf.targets.end());
      one.insert(one.end(), leaf.images.begin(), leaf.images.end());
    }
  }
  return all;
}

}  // namespace

TEST_CASE("texts of unequal length are read from a file as they were written", "[data][texts]") {
  const SampleSource source = test::tiny_texts(40);
  const std::string content = written_texts(source);
  const Dataset read = parse_binary_dataset(shared_bytes(content), "a");
  CHECK(read.has_texts());
  CHECK(read.token_bytes == 1);
  CHECK(read.size() == 40);
  for (size_t i = 0; i < 40; ++i) {
    REQUIRE(read.length_of(i) == source.encoded_sizes[i]);
    const auto text = std::get<EncodedImages>(read.pixels)[i];
    REQUIRE(std::string(text.begin(), text.end()) == source.image(i));
  }
  CHECK(written_texts(source_of(read)) == content);

  const test::TempDir folder;
  write_sharded_dataset(folder.path(), "train", source, 3);
  CHECK(open_dataset(folder.path(), Split::Train) == read);
  const std::vector<uint32_t> some = {7, 30};
  const Dataset part = read.select(Subset::only({some, nullptr}));
  CHECK(part.length_of(1) == read.length_of(30));
  const ChunkedDataset chunked(folder.path(), Split::Train);
  CHECK(chunked.dataset() == read);
  CHECK(chunked.place_of(std::get<EncodedImages>(chunked.dataset().pixels)[39].data()).chunk == 2);
}

TEST_CASE("tokens of texts are counted without the padding", "[data][texts]") {
  const SampleSource source = test::tiny_texts(40);
  uint64_t bytes = 0;
  for (const uint64_t size : source.encoded_sizes) bytes += size;
  CHECK(num_tokens(texts(40)) == bytes);
  CHECK(num_tokens(test::tiny_text(5)) == 5 * 12);
}

TEST_CASE("texts with classes have a vocabulary of their own", "[data][texts]") {
  SampleSource source = test::tiny_text_classes(40);
  source.vocabulary = 300;
  for (uint64_t& size : source.encoded_sizes) size = 4;
  const std::string two_tokens{1, 0, 43, 1};
  source.image = [&](size_t) { return std::string_view(two_tokens); };
  const std::string content = written_texts(source);
  const Dataset read = parse_binary_dataset(shared_bytes(content), "a");
  CHECK(read.has_text_classes());
  CHECK(read.num_classes == 3);
  CHECK(read.num_kinds_of_token() == 300);
  CHECK(read.token_bytes == 2);
  CHECK(read.labels.copy() == source.labels);
  CHECK(read.select(Subset::only({std::vector<uint32_t>{3}, nullptr})).has_text_classes());
  CHECK(written_texts(source_of(read)) == content);
  const test::TempDir folder;
  write_sharded_dataset(folder.path(), "train", source, 3);
  CHECK(open_dataset(folder.path(), Split::Train) == read);
  const auto changed = [&](size_t at, char value) {
    std::string other = content;
    other[at] = value;
    return other;
  };
  CHECK(texts_error(content).empty());
  CHECK_THAT(texts_error(changed(8, 8)), Catch::Contains("reads 1 to 7"));
  CHECK_THAT(texts_error(changed(36, 2)), Catch::Contains("has label 2, but there are 2 classes"));
  CHECK_THAT(texts_error(changed(111, 127)), Catch::Contains("has a vocabulary of"));
  CHECK_FALSE(written_texts(test::tiny_texts(3))[8] == content[8]);
}

TEST_CASE("a file keeps the tokenizer of its texts, or that there is none", "[data][texts]") {
  SampleSource source = test::tiny_texts(3);
  CHECK(parse_binary_dataset(shared_bytes(written_texts(source)), "a").tokenizer.empty());
  source.tokenizer = "00112233445566778899aabbccddeeff";
  CHECK(parse_binary_dataset(shared_bytes(written_texts(source)), "a").tokenizer ==
        source.tokenizer);
}

TEST_CASE("a token takes as many bytes as the vocabulary needs", "[data][texts]") {
  struct Case {
    uint32_t vocabulary, bytes;
  };
  const Case c = GENERATE(Case{256, 1}, Case{257, 2}, Case{65536, 2}, Case{65537, 4});
  SampleSource source = test::tiny_texts(1);
  source.num_classes = c.vocabulary;
  const std::string text(c.bytes * 3, '\1');
  source.image = [&](size_t) { return std::string_view(text); };
  source.encoded_sizes = {text.size()};
  const Dataset read = parse_binary_dataset(shared_bytes(written_texts(source)), "a");
  CHECK(read.token_bytes == c.bytes);
  CHECK(read.length_of(0) == 3);
}

TEST_CASE("an index that does not fit its texts is refused", "[data][texts]") {
  SampleSource source = test::tiny_texts(2);
  source.shape.width = 3;
  source.num_classes = 300;
  const std::string bytes[] = {{1, 0, 2, 0, 43, 1}, {5, 0}};
  source.image = [&](size_t sample) { return std::string_view(bytes[sample]); };
  source.encoded_sizes = {6, 2};
  const std::string content = written_texts(source);
  CHECK(content.size() == 128 + 2 * 8 + 2 * 4 + 8 + 2 * 64);
  const auto changed = [&](size_t at, uint64_t value, size_t count) {
    std::string other = content;
    for (size_t i = 0; i < count; ++i) other[at + i] = char(value >> (8 * i));
    return other;
  };
  CHECK(texts_error(content).empty());
  test::check_mentions(texts_error,
                       {{changed(128, 0, 8), "sample 0 ends at byte 0 of 8"},
                        {changed(128, 5, 8), "sample 0 has 5 bytes"},
                        {changed(136, UINT64_MAX, 8), "sample 1 ends at byte"},
                        {changed(136, 7, 8), "1 bytes after its last sample"},
                        {changed(32, 2, 4), "sample 0 has 6 bytes, but can have 2 tokens of 2"},
                        {changed(32, 0, 4), "has texts of 1 x 1 x 0 tokens"},
                        {changed(12, 1, 4), "pixels of unknown type"},
                        {changed(16, UINT64_MAX / 8, 8), "gives another number"}});
  CHECK_FALSE(texts_error(content.substr(0, content.size() - 1)).empty());
  CHECK_FALSE(texts_error(content.substr(0, 140)).empty());
}

TEST_CASE("a batch has texts of similar length, each once in an epoch", "[data][texts]") {
  const Dataset dataset = texts(1030);
  constexpr size_t kBlock = 8;
  std::vector<uint32_t> order = epoch_permutation(1030, 3, 1);
  const std::vector<uint32_t> before = order;
  group_by_length(dataset, order, kBlock, 3, 1);
  std::vector<uint32_t> again = before, other = before;
  group_by_length(dataset, again, kBlock, 3, 1);
  group_by_length(dataset, other, kBlock, 3, 2);
  CHECK(again == order);
  CHECK(other != order);
  CHECK(std::set(order.begin(), order.end()).size() == 1030);
  CHECK(std::equal(order.begin() + 1024, order.end(), before.begin() + 1024));  // not a whole block
  size_t spread = 0, first_lengths = 0;
  for (size_t block = 0; block < 1024; block += kBlock) {
    spread += dataset.length_of(order[block + kBlock - 1]) - dataset.length_of(order[block]);
    first_lengths +=
        block > 0 && dataset.length_of(order[block]) < dataset.length_of(order[block - kBlock]);
  }
  CHECK(spread < 128);        // 11 lengths in a window of 64 blocks
  CHECK(first_lengths > 40);  // blocks are not sorted by length
}

TEST_CASE("texts come in the same order with any batch size", "[data][texts]") {
  const Dataset dataset = texts(250);
  const auto samples_of = [&](size_t batch, uint64_t epoch) {
    LoaderOptions options = text_options(batch);
    options.text_block = 8;
    Loader loader(dataset, options);
    loader.seek(epoch, 0);
    std::vector<uint32_t> samples;
    for (size_t step = 0; step < loader.steps_per_epoch(); ++step) {
      for (const Leaf& leaf : loader.next().leaves) {
        samples.insert(samples.end(), leaf.samples.begin(), leaf.samples.end());
      }
    }
    return samples;
  };
  CHECK(samples_of(8, 1) == samples_of(24, 1));
  CHECK(samples_of(8, 1) != samples_of(8, 2));
  CHECK(samples_of(8, 1).size() == 250);
}

TEST_CASE("texts are padded to one of eight lengths", "[data][texts]") {
  CHECK(padded_length(1, 256) == 32);
  CHECK(padded_length(32, 256) == 32);
  CHECK(padded_length(33, 256) == 64);
  CHECK(padded_length(256, 256) == 256);
  CHECK(padded_length(95, 100) == 100);
  CHECK(padded_length(1, 5) == 2);
  std::set<size_t> lengths;
  for (size_t i = 1; i <= 1000; ++i) lengths.insert(padded_length(i, 1000));
  CHECK(lengths.size() == 8);
}

TEST_CASE("a leaf is as long as its longest text, on any number of ranks", "[data][texts]") {
  const Dataset dataset = texts(61);
  LoaderOptions options = text_options(16);
  Loader alone(dataset, options);
  for (int step = 0; step < 4; ++step) {
    const LocalBatch batch = alone.next();
    size_t tokens = 0;
    for (const Leaf& leaf : batch.leaves) {
      size_t longest = 0;
      for (size_t k = 0; k < leaf.count(); ++k) {
        const size_t length = dataset.length_of(leaf.samples[k]);
        REQUIRE(leaf.targets[k] == float(length));
        longest = std::max(longest, length);
        tokens += length;
        const auto text = std::get<EncodedImages>(dataset.pixels)[leaf.samples[k]];
        for (size_t t = 0; t < leaf.length; ++t) {
          REQUIRE(leaf.images[k * leaf.length + t] == (t < length ? float(text[t]) : 0.0f));
        }
      }
      if (leaf.count() > 0) CHECK(leaf.length == padded_length(longest, 12));
    }
    CHECK(batch.global_tokens == tokens);
    CHECK(batch.global_weight() == tokens - batch.global_samples);
  }
  alone.seek(0, 0);
  const auto expected = leaves_of(alone, 8);
  options.prefetch = GENERATE(0, 2);
  options.threads = GENERATE(1, 3);
  options.own_leaves = 2;
  Loader first(dataset, options);
  options.first_leaf = 2;
  Loader second(dataset, options);
  std::vector<std::vector<float>> joined;
  for (int step = 0; step < 8; ++step) {
    for (Loader* loader : {&first, &second}) {
      for (auto& leaf : leaves_of(*loader, 1)) joined.push_back(std::move(leaf));
    }
  }
  CHECK(joined == expected);
}
