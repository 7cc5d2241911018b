#include "runtime/data/sharded_dataset.h"

#include "base/error.h"
#include "base/file.h"
#include "runtime/data/chunked_dataset.h"
#include "runtime/data/split_files.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_data.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

namespace fs = std::filesystem;

/// A folder with ten samples in three shards.
struct Sharded {
  test::TempDir folder;
  Dataset dataset = test::tiny_dataset(10);
  ShardIndex index = write_sharded_dataset(folder.path(), "train", source_of(dataset), 3);

  fs::path shard(size_t i) const { return folder.path() / index[i].file; }

  std::string error() const {
    return test::error_of([&] { open_dataset(folder.path(), Split::Train); });
  }
};

}  // namespace

TEST_CASE("samples of a validation split follow those for training", "[data]") {
  const test::TempDir folder;
  const Dataset train = make_dataset({1, 1, 1}, 2, std::vector<uint8_t>{1, 2, 3}, {0, 1, 0}),
                validation = make_dataset({1, 1, 1}, 4, std::vector<uint8_t>{4, 5}, {3, 2});
  write_binary_dataset(folder.path() / "train.dlset", train);
  CHECK(open_dataset(folder.path(), Split::Train) == train);
  const std::string alone = ChunkedDataset(folder.path(), Split::Train).content_hash();
  write_sharded_dataset(folder.path(), "validation", source_of(validation), 2);
  Dataset both = make_dataset({1, 1, 1}, 4, std::vector<uint8_t>{1, 2, 3, 4, 5}, {0, 1, 0, 3, 2});
  both.num_validation = 2;
  CHECK(open_dataset(folder.path(), Split::Train) == both);
  CHECK(both.without_validation().size() == 3);
  CHECK(both.without_validation().labels == train.labels);
  CHECK(train.without_validation() == train);
  const ChunkedDataset chunks(folder.path(), Split::Train);
  CHECK(chunks.dataset() == both);
  CHECK(chunks.files().size() == 3);
  CHECK(chunks.content_hash() != alone);
  CHECK(open_dataset(folder.path(), Split::Validation) == validation);
  CHECK(files_of(splits_to_read(folder.path(), Split::Train)).size() == 4);
  write_binary_dataset(folder.path() / "validation.dlset",
                       make_dataset({2, 1, 1}, 2, std::vector<uint8_t>{1, 2}, {0}));
  CHECK_THROWS_WITH(open_dataset(folder.path(), Split::Train),
                    Catch::Contains("validation.dlset: has other images"));
  std::filesystem::remove(folder.path() / "train.dlset");
  folder.write("train-images-idx3-ubyte", "");
  folder.write("train-labels-idx1-ubyte", "");
  CHECK_THROWS_WITH(splits_to_read(folder.path(), Split::Train),
                    Catch::Contains("validation.dlset is beside IDX files for training"));
}

TEST_CASE("shards are read as one data set", "[shards]") {
  const test::TempDir folder;
  const Dataset dataset = test::tiny_dataset(10);
  const uint64_t num_shards = GENERATE(1, 2, 3, 10);
  write_sharded_dataset(folder.path(), "train", source_of(dataset), num_shards);
  CHECK(open_dataset(folder.path(), Split::Train) == dataset);
  CHECK(open_dataset(folder.path(), Split::Train, Proof::Structure) == dataset);
  CHECK(split_files(folder.path(), Split::Train).files.size() == num_shards + 1);
}

TEST_CASE("shards have similar sizes, and names in the order of their numbers", "[shards]") {
  CHECK(shard_sizes(10, 3) == std::vector<uint64_t>{4, 3, 3});
  CHECK_THROWS_WITH(shard_sizes(2, 3), "2 samples cannot be divided into 3 shards; choose 1 to 2");
  CHECK_THROWS_AS(shard_sizes(2, 0), Error);
  const Sharded sharded;
  CHECK(sharded.index[2].file == "train-00002-of-00003.dlset");
  CHECK(sharded.index[2].num_samples == 3);
}

TEST_CASE("no shard is larger than requested", "[shards]") {
  const Dataset dataset = test::tiny_dataset(10);
  const SampleSource source = source_of(dataset);
  const uint64_t one = binary_dataset_bytes(source, 0, 1),
                 four = binary_dataset_bytes(source, 0, 4);
  CHECK(one == 128 + 4 + 64 + 64 + 64);
  CHECK(shards_of_at_most(four, source) == 3);
  CHECK(shards_of_at_most(four - 1, source) == 4);
  CHECK(shards_of_at_most(one, source) == 10);
  CHECK(shards_of_at_most(1 << 20, source) == 1);
  CHECK_THROWS_WITH(shards_of_at_most(one - 1, source), Catch::Contains("one sample takes 324 B"));
}

TEST_CASE("the index has the text that docs/user/dlset.md shows", "[shards]") {
  const ShardIndex index = {{"train-00000-of-00001.dlset", 7, std::string(64, 'a')}};
  const std::string text = format_shard_index(index);
  CHECK(text ==
        "{\n \"shards\": [\n  {\n   \"file\": \"train-00000-of-00001.dlset\",\n   "
        "\"samples\": 7,\n   \"sha256\": \"" +
            std::string(64, 'a') + "\"\n  }\n ],\n \"version\": 1\n}\n");
  CHECK(parse_shard_index(text, "data/train.shards.json") == index);
}

TEST_CASE("an invalid index is refused with the reason", "[shards]") {
  const auto error_of = [](const std::string& text) -> std::string {
    return test::error_of([&] { parse_shard_index(text, "train.shards.json"); }, Errc::Corrupt);
  };
  CHECK_THAT(error_of(""), Catch::Contains("is not an index of shards"));
  CHECK_THAT(error_of("[]"), Catch::Contains("is not an index of shards"));
  CHECK_THAT(error_of(R"({"version": 2, "shards": []})"), Catch::Contains("has version 2"));
  CHECK_THAT(error_of(R"({"version": 1, "shards": []})"), Catch::Contains("names no shards"));
  CHECK_THAT(error_of(R"({"version": 1, "shards": [{"file": 3}]})"),
             Catch::Contains("is not an index of shards"));
  CHECK(error_of(R"({"version": 1, "shards": [{"file": "../x", "samples": 1, "sha256": "a"}]})") ==
        "train.shards.json: names \"../x\" where train-00000-of-00001.dlset belongs");
}

TEST_CASE("a shard that is missing, damaged or swapped is named", "[shards]") {
  const Sharded sharded;
  REQUIRE(sharded.error().empty());
  SECTION("missing") {
    fs::remove(sharded.shard(1));
    CHECK_THAT(sharded.error(), Catch::Contains(sharded.shard(1).string() + ": this shard is "));
  }
  SECTION("damaged") {
    std::string content = read_file(sharded.shard(2));
    content[content.size() / 2] ^= 1;
    write_file_atomic(sharded.shard(2), content);
    CHECK(sharded.error() ==
          sharded.shard(2).string() +
              ": its SHA-256 does not match: the file was damaged; copy it again");
  }
  SECTION("cut off") {
    write_file_atomic(sharded.shard(0), read_file(sharded.shard(0)).substr(0, 200));
    CHECK_THAT(sharded.error(), Catch::StartsWith(sharded.shard(0).string() + ": has 200 bytes"));
  }
  SECTION("swapped") {
    fs::rename(sharded.shard(1), sharded.folder.path() / "aside");
    fs::rename(sharded.shard(2), sharded.shard(1));
    fs::rename(sharded.folder.path() / "aside", sharded.shard(2));
    CHECK_THAT(sharded.error(), Catch::StartsWith(sharded.shard(1).string() +
                                                  ": is not the shard that train.shards.json"));
  }
  SECTION("of another data set") {
    write_binary_dataset(sharded.shard(2), test::tiny_dataset(3, 9));
    CHECK_THAT(sharded.error(), Catch::StartsWith(sharded.shard(2).string()));
  }
}

TEST_CASE("one file takes precedence over shards, and shards over IDX", "[shards]") {
  const Sharded sharded;
  sharded.folder.write("train-images-idx3-ubyte", "not looked at");
  sharded.folder.write("train-labels-idx1-ubyte", "not looked at");
  CHECK(open_dataset(sharded.folder.path(), Split::Train).size() == 10);
  write_binary_dataset(sharded.folder.path() / "train.dlset", test::tiny_dataset(4));
  CHECK(open_dataset(sharded.folder.path(), Split::Train).size() == 4);
}

TEST_CASE("a shard whose samples are of another kind is refused by name", "[shards]") {
  Dataset whole = make_dataset({1, 1, 2}, 3, std::vector<uint8_t>{1, 2}, {0});
  Dataset part = whole;
  const auto error = [&] {
    return test::error_of([&] { append_shard(whole, part, "b.dlset"); }, Errc::Corrupt);
  };
  CHECK(error().empty());
  CHECK(whole.size() == 2);
  SECTION("another shape") { part.shape = {2, 1, 1}; }
  SECTION("other classes") { part.num_classes = 4; }
  SECTION("masks") { part.has_masks = true; }
  SECTION("targets") { part.num_targets = 1; }
  SECTION("another vocabulary") { part.vocabulary = 5; }
  SECTION("larger tokens") { part.token_bytes = 2; }
  SECTION("another size of pictures") { part.reshaping = {64}; }
  SECTION("another type") { part = make_dataset({1, 1, 2}, 3, std::vector<float>{1, 2}, {0}); }
  CHECK_THAT(error(), Catch::StartsWith("b.dlset: has other images, classes, masks or targets"));
  CHECK(whole.size() == 2);
}
