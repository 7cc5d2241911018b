#include "runtime/optim/average.h"

#include <vector>

#include "tests/support/catch.h"

using namespace dlflow::runtime;

TEST_CASE("a running mean moves by its share of the difference", "[optim]") {
  const std::vector<float> values(37, 5);
  std::vector<float> averaged(38, 1);
  move_average(values, 0.25f, std::span(averaged).first(37));
  std::vector<float> expected(38, 2);
  expected.back() = 1;  // beside the averaged numbers
  CHECK(averaged == expected);
  move_average(values, 1, std::span(averaged).first(37));
  expected.assign(38, 5);
  expected.back() = 1;
  CHECK(averaged == expected);
}
