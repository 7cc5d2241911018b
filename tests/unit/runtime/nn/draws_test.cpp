#include "runtime/nn/draws.h"

#include <algorithm>
#include <vector>

#include "tests/support/catch.h"

using namespace dlflow::runtime;

namespace {

std::vector<uint8_t> draw(uint32_t sample, size_t count) {
  std::vector<uint8_t> keeps(count);
  LayerDraws({.seed = 7, .epoch = 3, .samples = {}}, "d").draw(sample, 0.25, keeps);
  return keeps;
}

}  // namespace

TEST_CASE("draws are the same one at a time and 64 at a time", "[draws]") {
  const std::vector<uint8_t> all = draw(11, 5 * 64 + 3);
  for (const size_t count : {1, 4, 63, 64, 65, 130}) {
    CHECK(std::ranges::equal(draw(11, count), std::span(all).first(count)));
  }
  for (const size_t count : {63, 64}) {
    CHECK(!std::ranges::equal(draw(12, count), std::span(all).first(count)));
  }
}

TEST_CASE("dropout sets the share `rate` of all numbers to zero", "[draws]") {
  const std::vector<uint8_t> keeps = draw(1, 40000);
  CHECK(std::ranges::count(keeps, 0) == Approx(10000).margin(400));  // five standard deviations
  CHECK(std::ranges::count(keeps, 1) + std::ranges::count(keeps, 0) == 40000);
}
