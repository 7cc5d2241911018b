#include "runtime/import/checked_samples.h"

#include <cmath>

#include "base/error.h"
#include "runtime/import/packing.h"
#include "runtime/import/sources.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"

namespace fs = std::filesystem;
using namespace dlflow;
using namespace dlflow::runtime;

namespace {

constexpr float kNan = NAN, kInfinity = INFINITY;

void read_all(const SampleSource& source) {
  for (size_t i = 0; i < source.size(); ++i) source.image(i);
}

/// The error for `source`.
std::string error_of(const SampleSource& source) {
  return test::error_of([&] { write_checked(source, "set", read_all); }, Errc::InvalidInput);
}

SampleSource source_of_floats(const ImageShape& shape, std::vector<float> values) {
  std::vector<uint32_t> labels(values.size() / shape.num_values(), 0);
  return source_of(make_dataset(shape, 1, std::move(values), std::move(labels)));
}

}  // namespace

TEST_CASE("every sample with NaN or an infinite number is named at once", "[checked_samples]") {
  CHECK(error_of(source_of_floats({1, 1, 2}, {0, 1, -2, 3e38f})).empty());
  CHECK(
      error_of(source_of_floats({1, 2, 2}, {0, 0, 0, 0, 0, 0, 0, kNan, 0, 0, -kInfinity, kNan})) ==
      "set: 2 of 3 samples cannot be used; repair them, or take them out:\n"
      "  set: sample 1: channel 0, row 1, column 1 is NaN\n"
      "  set: sample 2: channel 0, row 1, column 0 is infinite, and 1 more values");
  CHECK_THAT(error_of(source_of_floats({3, 1, 1}, {0, 0, kNan})),
             Catch::EndsWith("set: sample 0: value 2 is NaN"));
}

TEST_CASE("targets that are NaN or infinite are named with their samples", "[checked_samples]") {
  const auto error_with = [](std::vector<float> targets) {
    const std::vector<float> values(targets.size() / 2, 1);
    return error_of(source_of(make_dataset({1, 1, 1}, values, std::move(targets), 2)));
  };
  CHECK(error_with({0, 1, -3e38f, 3e38f}).empty());
  CHECK(error_with({0, 1, kNan, 2, -3, -kInfinity}) ==
        "set: 2 of 3 samples cannot be used; repair them, or take them out:\n"
        "  set: sample 1: target 0 is NaN\n"
        "  set: sample 2: target 1 is infinite");
}

TEST_CASE("the first of many bad samples are named, and the others counted", "[checked_samples]") {
  const std::string text = error_of(source_of_floats({1, 1, 1}, std::vector<float>(1234, kNan)));
  CHECK_THAT(text, Catch::StartsWith("set: 1,234 of 1,234 samples cannot be used;"));
  CHECK_THAT(text, Catch::Contains("\n  set: sample 19: value 0 is NaN\n  and 1214 more"));
  CHECK_THAT(text, !Catch::Contains("sample 20"));
}

TEST_CASE("all bad pictures of a folder are named", "[checked_samples]") {
  const test::TempDir folder;
  const auto text_of = [&] {
    return error_of(open_source(folder.path(), "", Split::Train).source);
  };
  folder.write("cat/1.pgm", "P5 1 1 255");
  folder.write("cat/2.gif", "");
  CHECK_THAT(text_of(), Catch::Contains("2 of 2 samples") &&
                            Catch::Contains("cat/1.pgm: has 0 bytes") &&
                            Catch::Contains("cat/2.gif: is no"));
  folder.write("cat/3.pgm", "P5 1 1 255 a");
  folder.write("dog/1.pgm", "P5 2 1 255 aa");
  folder.write("dog/2.pgm", "P5 1 1 255 b");
  CHECK_THAT(text_of(),
             Catch::Contains("3 of 5 samples") && Catch::Contains("dog/1.pgm: has 2 x 1"));
}

TEST_CASE("a failed write of a data set is not blamed on a sample", "[checked_samples]") {
  const SampleSource source = source_of_floats({1, 1, 1}, {kNan});
  const auto fail = [](const SampleSource&) { throw Error(Errc::Unavailable, "the disk is full"); };
  CHECK_THROWS_WITH(write_checked(source, "set", fail), "the disk is full");
}

TEST_CASE("each bad file of a split is found", "[checked_samples]") {
  const test::TempDir folder;
  const fs::path set = folder.path() / "set";
  Packing packing;
  packing.source = folder.path() / "t.csv";
  packing.output = set;
  packing.shards = 2;
  packing.import.columns = {{}, {}, "y"};
  folder.write("t.csv", "x,y\n1,a\n2,b\n3,a\n4,b\n");
  pack(packing);
  const SplitFiles split{SplitFiles::Format::Shards, {set / "train.shards.json"}};
  CHECK(mistakes_in(split).empty());
  folder.write("set/train-00000-of-00002.dlset", "");
  fs::remove(set / "train-00001-of-00002.dlset");
  const std::vector<std::string> mistakes = mistakes_in(split);
  REQUIRE(mistakes.size() == 2);
  CHECK_THAT(mistakes[0], Catch::Contains("train-00000-of-00002.dlset: "));
  CHECK_THAT(mistakes[1], Catch::Contains("train-00001-of-00002.dlset: this shard is missing"));
}
