#include "runtime/data/rows.h"

#include <cstdint>
#include <numeric>

#include "tests/support/catch.h"

using namespace dlflow::runtime;

namespace {

std::vector<uint32_t> numbers(uint32_t first, uint32_t count) {
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

}  // namespace

TEST_CASE("rows of several parts follow one another, even if parts are empty", "[data]") {
  Rows<uint32_t> rows(numbers(0, 6), 2);
  rows.add(Rows<uint32_t>({}, 2));
  rows.add(Rows<uint32_t>(numbers(6, 2), 2));
  REQUIRE(rows.size() == 4);
  for (uint32_t i = 0; i < 4; ++i) CHECK(rows[i][1] == 2 * i + 1);
  CHECK(rows == Rows<uint32_t>(numbers(0, 8), 2));
  CHECK(rows != Rows<uint32_t>(numbers(1, 8), 2));
}

TEST_CASE("a part has the rows of a list, or all others, in order", "[data]") {
  const auto list =
      GENERATE(std::vector<uint32_t>{}, std::vector<uint32_t>{0}, std::vector<uint32_t>{9},
               std::vector<uint32_t>{0, 1, 2, 5, 8, 9}, std::vector<uint32_t>{3, 4, 6});
  const Rows<uint32_t> rows(numbers(0, 10), 1);
  const Rows<uint32_t> only = rows.select(Subset::only({list, nullptr}));
  const Rows<uint32_t> others = rows.select(Subset::all_but({list, nullptr}, rows.size()));
  std::vector<uint32_t> expected;
  for (uint32_t i = 0; i < 10; ++i) {
    if (std::ranges::find(list, i) == list.end()) expected.push_back(i);
  }
  CHECK(only == Rows<uint32_t>(list, 1));
  CHECK(others == Rows<uint32_t>(expected, 1));
}
