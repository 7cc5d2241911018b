#include "runtime/collectives/sum_order.h"

#include "tests/support/catch.h"

using namespace dlflow::runtime;

TEST_CASE("leaves are shared out evenly, and a rank adds its own leaves first", "[collectives]") {
  // 0 1 | 2 3 4 | 5 6 7: 0+1 | 2+3, 4 | 5, 6+7
  CHECK(leaf_share(8, 0, 3) == LeafShare{0, 2, {0, 1}, 1, 2});
  CHECK(leaf_share(8, 1, 3) == LeafShare{2, 3, {0, 1, 0}, 2, 2});
  CHECK(leaf_share(8, 2, 3) == LeafShare{5, 3, {0, 0, 1}, 2, 3});
  CHECK(sum_in_leaf_order(8, 3) == SumOrder{{1, 2, 2}, {0, 1, 0, 1, 2}});
  CHECK(leaf_share(8, 0, 1) == LeafShare{0, 8, {0, 1, 0, 2, 0, 1, 0, 3}, 1, 4});
  CHECK(leaf_share(2, 3, 4) == LeafShare{2, 0, {}, 0, 0});
  // Leaves of each rank by itself: one part is left, for any number of leaves.
  CHECK(leaves_of_rank(1, 2) == LeafShare{2, 1, {0}, 1, 1});
  CHECK(leaves_of_rank(3, 1) == LeafShare{3, 3, {0, 1, 1}, 1, 2});
  CHECK(leaves_of_rank(4, 0) == LeafShare{0, 4, {0, 1, 0, 2}, 1, 3});
  CHECK(sum_in_leaf_order(2, 4) == SumOrder{{1, 1, 0, 0}, {0, 1}});
  CHECK(sum_in_rank_order(3) == SumOrder{{1, 1, 1}, {0, 1, 1}});
}
