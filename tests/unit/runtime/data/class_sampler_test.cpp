#include "runtime/data/class_sampler.h"

#include "base/error.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

/// 96 samples of class 0, 4 of class 2, none of the others.
Dataset uneven() {
  std::vector<uint32_t> labels(100, 0);
  for (const size_t sample : {7, 50, 51, 99}) labels[sample] = 2;
  return make_dataset({1, 1, 1}, 4, std::vector<uint8_t>(100), labels);
}

std::vector<int> counts_of(const ClassSampler& sampler, uint64_t epoch) {
  std::vector<int> counts(100);
  for (size_t place = 0; place < 10000; ++place) ++counts[sampler.draw(epoch, place)];
  return counts;
}

}  // namespace

TEST_CASE("classes are drawn equally often whatever their size, as are the samples of each",
          "[data]") {
  const std::vector<int> counts = counts_of({uneven(), {}, 1}, 0);
  int rare = 0;
  for (const size_t sample : {7, 50, 51, 99}) {
    rare += counts[sample];
    CHECK(std::abs(counts[sample] - 1250) < 166);  // five standard deviations
  }
  CHECK(std::abs(rare - 5000) < 250);
  CHECK(std::ranges::count(counts, 0) == 0);
}

TEST_CASE("classes are drawn by their shares", "[data]") {
  const Dataset data = make_dataset({1, 1, 1}, 3, std::vector<uint8_t>(4), {0, 1, 1, 2});
  const ClassSampler sampler(data, std::vector<float>{1, 2, 5}, 1);
  std::vector<int> counts(4);
  for (size_t place = 0; place < 8000; ++place) ++counts[sampler.draw(0, place)];
  for (const auto& [sample, expected] : {std::pair(0, 1000), {1, 1000}, {2, 1000}, {3, 5000}}) {
    CHECK(std::abs(counts[size_t(sample)] - expected) < 220);
  }
}

TEST_CASE("a draw depends on seed, epoch and place", "[data]") {
  const Dataset data = uneven();
  CHECK(counts_of({data, {}, 1}, 3) == counts_of({data, {}, 1}, 3));
  CHECK(counts_of({data, {}, 1}, 3) != counts_of({data, {}, 1}, 4));
  CHECK(counts_of({data, {}, 1}, 3) != counts_of({data, {}, 2}, 3));
}

TEST_CASE("shares that do not fit the data are refused", "[data]") {
  CHECK_THROWS_WITH(ClassSampler(uneven(), std::vector<float>{1, 1, 1}, 0),
                    "with: 'sampling' has 3 shares for the 4 classes of the training data");
  CHECK_THROWS_WITH(ClassSampler(uneven(), std::vector<float>{1, 1, 1, 1}, 0),
                    "with: 'sampling' has a share for class 1, which has no samples");
  Dataset masks = uneven();
  masks.has_masks = true;
  CHECK_THROWS_WITH(ClassSampler(masks, {}, 0), Catch::Contains("have a class per pixel"));
}
