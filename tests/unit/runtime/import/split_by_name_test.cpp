#include "runtime/import/split_by_name.h"

#include <algorithm>

#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;

TEST_CASE("a sample's split depends only on its name", "[split_by_name]") {
  std::vector<std::string> names;
  for (int i = 0; i < 2000; ++i) names.push_back("cat/" + std::to_string(i) + ".png");
  auto parts = split_by_name(names, {0.2, 0.1});
  CHECK(parts[Split::Train].size() + parts[Split::Validation].size() + parts[Split::Test].size() ==
        2000);
  CHECK(std::abs(double(parts[Split::Test].size()) - 400) < 60);  // three deviations are 54
  CHECK(std::abs(double(parts[Split::Validation].size()) - 200) < 45);
  CHECK(std::ranges::is_sorted(parts[Split::Test]));
  for (const size_t sample : parts[Split::Test]) {
    CHECK(split_of(names[sample], {0.3, 0.1}) == Split::Test);
  }
  // Python's hashlib gives 0.41497 and 0.98051, which no later version may change.
  CHECK(split_of("cat/1.png", {0.415, 0.1}) == Split::Test);
  CHECK(split_of("cat/1.png", {0.4149, 0.1}) == Split::Train);
  CHECK(split_of("dog/7.jpg", {0.4149, 0.02}) == Split::Validation);
  CHECK(split_of("dog/7.jpg", {0.98, 0.019}) == Split::Train);
  CHECK(split_by_name(names, {0, 0.5}).size() == 2);
  CHECK_THROWS_WITH(split_by_name(names, {1e-9, 0}),
                    Catch::Contains("would be in the test split; choose another --test-share"));
  CHECK_THROWS_WITH(split_by_name(names, {1, 0}), Catch::Contains("in the train split"));
  CHECK_THROWS_WITH(split_by_name(names, {0, 1e-9}), Catch::Contains("--validation-share"));
}

TEST_CASE("a subset of a source keeps its labels or targets", "[split_by_name]") {
  const std::vector<uint8_t> values = {1, 2, 3};
  const SampleSource labels = source_of(make_dataset({1, 1, 1}, 6, values, {3, 4, 5}));
  const SampleSource part = part_of(labels, {0, 2});
  CHECK(part.labels == std::vector<uint32_t>{3, 5});
  CHECK(part.image(1) == "\3");
  const SampleSource targets = source_of(make_dataset({1, 1, 1}, values, {1, 2, 3, 4, 5, 6}, 2));
  CHECK(part_of(targets, {1}).targets == std::vector<float>{3, 4});
  CHECK(part_of(targets, {1}).size() == 1);
}
