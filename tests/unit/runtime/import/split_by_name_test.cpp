#include "runtime/import/split_by_name.h"

#include <algorithm>

#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;

TEST_CASE("the name alone decides about the split of a sample", "[split_by_name]") {
  std::vector<std::string> names;
  for (int i = 0; i < 2000; ++i) names.push_back("cat/" + std::to_string(i) + ".png");
  const NamedParts parts = split_by_name(names, 0.2);
  CHECK(parts.train.size() + parts.test.size() == 2000);
  CHECK(std::abs(double(parts.test.size()) - 400) < 60);  // three deviations are 54
  CHECK(std::ranges::is_sorted(parts.test));
  // By Python's hashlib 0.41497 and 0.98051, now and in later versions.
  CHECK(is_for_test("cat/1.png", 0.415));
  CHECK_FALSE(is_for_test("cat/1.png", 0.4149));
  CHECK_FALSE(is_for_test("dog/7.jpg", 0.98));
  for (const size_t sample : parts.test) CHECK(is_for_test(names[sample], 0.3));
  CHECK_FALSE(is_for_test("cat/1.png", 0));
  CHECK(is_for_test("cat/1.png", 1));
  CHECK_THROWS_WITH(split_by_name(names, 0), Catch::Contains("none would be for the test"));
  CHECK_THROWS_WITH(split_by_name(names, 1), Catch::Contains("none would be for the training"));
}

TEST_CASE("a part of a source has its samples with labels or targets", "[split_by_name]") {
  const std::vector<uint8_t> values = {1, 2, 3};
  const SampleSource labels = source_of(make_dataset({1, 1, 1}, 6, values, {3, 4, 5}));
  const SampleSource part = part_of(labels, {0, 2});
  CHECK(part.labels == std::vector<uint32_t>{3, 5});
  CHECK(part.image(1) == "\3");
  const SampleSource targets = source_of(make_dataset({1, 1, 1}, values, {1, 2, 3, 4, 5, 6}, 2));
  CHECK(part_of(targets, {1}).targets == std::vector<float>{3, 4});
  CHECK(part_of(targets, {1}).size() == 1);
}
