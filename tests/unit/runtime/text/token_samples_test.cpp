#include "runtime/text/token_samples.h"

#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "runtime/data/binary_dataset.h"
#include "runtime/data/sharded_dataset.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/runtime/text/sample_tokenizer.h"

using namespace dlflow;
using namespace dlflow::runtime;

TEST_CASE("tokens become samples, with their tokenizer in the file", "[token_samples]") {
  const test::TempDir folder;
  const Vocabulary bytes = Vocabulary::bytes();
  const std::vector<uint32_t> tokens = {104, 105, 0, 97, 98, 99, 100};
  const SampleSource source = token_source(tokens, 3, bytes);
  CHECK(source.size() == 2);
  CHECK(source.num_classes == 256);
  CHECK(source.image(0) == std::string_view("hi\0", 3));
  CHECK(source.image(1) == "abc");
  const auto file = folder.path() / "train.dlset";
  const BinaryHeader header = write_binary_dataset(file, source, 0, source.size());
  CHECK(header.tokenizer == bytes.id());
  CHECK(read_binary_header(file) == header);
  const Dataset dataset = read_binary_dataset(file);
  CHECK(dataset.tokenizer == bytes.id());
  CHECK(dataset.select(Subset::all_but({}, 2)).tokenizer == bytes.id());
  CHECK(tokens_of(dataset, 1) == std::vector<uint32_t>{97, 98, 99});
  CHECK(text_bytes(dataset, bytes) == 5);
  CHECK(text_bytes(dataset, bytes, 1) == 3);  // "i", an end, "b", "c"
  CHECK(bits_per_byte(std::log(8.0), dataset, bytes) == Approx(3 * 4 / 3.0));
  CHECK(read_vocabulary(dataset.tokenizer, folder.path()).has_bytes_alone());
}

TEST_CASE("tokens of byte pairs are stored as floats, and read back unchanged", "[token_samples]") {
  const test::TempDir folder;
  write_file_atomic(folder.path() / "tokenizer.model", test::sample_tokenizer());
  const Vocabulary pairs = Vocabulary::parse(test::sample_tokenizer(), "t");
  const SampleSource source = token_source(std::vector<uint32_t>{258, 1, 259, 12}, 2, pairs);
  CHECK(source.pixel_type == PixelType::Float);
  CHECK(source.num_classes == 260);
  CHECK(source.labels == std::vector<uint32_t>{0, 0});
  const auto file = folder.path() / "train.dlset";
  write_binary_dataset(file, source, 0, source.size());
  const Dataset dataset = read_binary_dataset(file);
  CHECK(tokens_of(dataset, 0) == std::vector<uint32_t>{258, 1});
  CHECK(tokens_of(dataset, 1) == std::vector<uint32_t>{259, 12});
  CHECK(text_bytes(dataset, pairs) == 9);  // " the", nothing, "a  z" and "\n"
  CHECK(read_vocabulary(dataset.tokenizer, folder.path()).id() == pairs.id());
  write_file_atomic(folder.path() / "tokenizer.model", test::sample_tokenizer() + "\x10\x01");
  CHECK_THROWS_WITH(read_vocabulary(dataset.tokenizer, folder.path()),
                    Catch::Contains("is not the tokenizer that made the data beside it") &&
                        Catch::Contains("begins with " + pairs.id()));
}

TEST_CASE("texts of unequal length are samples with their own numbers of tokens",
          "[token_samples]") {
  const test::TempDir folder;
  const bool pairs = GENERATE(false, true);
  const Vocabulary vocabulary =
      pairs ? Vocabulary::parse(test::sample_tokenizer(), "t") : Vocabulary::bytes();
  const std::vector<uint32_t> tokens = {104, 105, 97, 98, 99, 100}, lengths = {2, 3, 1};
  const SampleSource source = text_source(tokens, lengths, 4, vocabulary);
  CHECK(source.shape == ImageShape{1, 1, 4});
  CHECK(source.pixel_type == PixelType::Token);
  CHECK(source.num_classes == vocabulary.size());
  CHECK(source.tokenizer == vocabulary.id());
  CHECK(source.encoded_sizes ==
        (pairs ? std::vector<uint64_t>{4, 6, 2} : std::vector<uint64_t>{2, 3, 1}));
  const auto file = folder.path() / "train.dlset";
  write_binary_dataset(file, source, 0, source.size());
  const Dataset dataset = read_binary_dataset(file);
  CHECK(tokens_of(dataset, 0) == std::vector<uint32_t>{104, 105});
  CHECK(tokens_of(dataset, 1) == std::vector<uint32_t>{97, 98, 99});
  CHECK(tokens_of(dataset, 2) == std::vector<uint32_t>{100});
  CHECK(text_bytes(dataset, vocabulary) == 6);
  CHECK(text_bytes(dataset, vocabulary, 1) == 3);
  CHECK(bits_per_byte(std::log(2.0), dataset, vocabulary) == Approx(1));
}

TEST_CASE("bits per byte count the predicted bytes, if there are any", "[token_samples]") {
  const Vocabulary bytes = Vocabulary::bytes();
  const auto bits = [&](std::vector<uint8_t> sample) {
    const auto length = uint32_t(sample.size());
    return bits_per_byte(std::log(4.0), make_dataset({1, 1, length}, 256, std::move(sample), {0}),
                         bytes);
  };
  CHECK(bits({'a', 'b'}) == Approx(2));
  CHECK(bits({'a', 'b', 'c'}) == Approx(2));
  CHECK(bits({'a', 'b', 0}) == Approx(4));  // the end is predicted, but is not a byte of the text
  CHECK(bits({'a', 0}) == Approx(2));
}

TEST_CASE("data without its tokenizer, or with a different one, is refused", "[token_samples]") {
  const test::TempDir folder;
  Dataset dataset = make_dataset({1, 1, 2}, 300, std::vector<float>{1, 299}, {0});
  dataset.tokenizer = std::string(32, 'a');
  CHECK_THROWS_WITH(read_vocabulary(dataset.tokenizer, folder.path()),
                    Catch::Contains("is missing"));
  CHECK_THROWS_WITH(text_bytes(dataset, Vocabulary::bytes()),
                    Catch::Contains("sample 0 has token 299, but the tokenizer has 256"));
  const float wrong =
      GENERATE(float(NAN), -1.0f, -2.0f, -4294967040.0f, 16777216.0f, float(INFINITY));
  const Dataset damaged = make_dataset({1, 1, 2}, 300, std::vector<float>{1, wrong}, {0});
  CHECK_THROWS_WITH(text_bytes(damaged, Vocabulary::bytes()),
                    Catch::Contains("sample 0 has token 4294967295"));
  Dataset other = dataset;
  other.tokenizer.clear();
  CHECK_THROWS_WITH(append_shard(dataset, other, "b.dlset"),
                    Catch::Contains("b.dlset: has tokens of another tokenizer"));
}
