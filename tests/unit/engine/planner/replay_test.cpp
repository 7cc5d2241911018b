#include "engine/planner/formulas.h"
#include "tests/support/catch.h"

using namespace dlflow::planner;
using Times = std::vector<double>;

TEST_CASE("buckets are sent one after the other, none before it is ready", "[planner]") {
  // 1-3, then 3-7, then 9-10: e_i = max(r_i, e_(i-1)) + c_i
  CHECK(replay({{1, 2, 0}, {2, 4, 1}, {9, 1, 2}}) == Times{3, 7, 10});
}

TEST_CASE("sums of the first layers interrupt the others", "[planner]") {
  // Layer 2: 1-3 and 4-6, layer 0 between them.
  CHECK(replay({{1, 4, 0}, {3, 1, 1}}) == Times{5, 6});
  CHECK(replay({{1, 4, 2}, {3, 1, 0}}) == Times{6, 4});
}

TEST_CASE("a less urgent bucket waits for the more urgent ones", "[planner]") {
  CHECK(replay({{1, 2, 1}, {1, 2, 3}, {2, 1, 2}}) == Times{3, 6, 4});
  CHECK(replay({}).empty());
}

TEST_CASE("a layer of the next pass waits only for its own sum", "[planner]") {
  CHECK(chain_end(10, {1, 1, 1}, {9, 10, 15}) == 16);
  CHECK(chain_end(10, {1, 1, 1}, {0, 0, 12}) == 13);
}
