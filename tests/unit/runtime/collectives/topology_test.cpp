#include "runtime/collectives/topology.h"

#include "runtime/comm/thread_communicator.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/collectives/other_ranks.h"

using namespace dlflow::runtime;
using dlflow::test::PlacedRank;

TEST_CASE("a topology lists the ranks of each node, however they were placed", "[collectives]") {
  ThreadGroup group(6);
  const Topology topology = topology_of(PlacedRank(group.communicator(3), {0, 1, 0, 2, 1, 0}));
  CHECK(topology.nodes == std::vector<std::vector<int>>{{0, 2, 5}, {1, 4}, {3}});
  CHECK(topology.num_ranks() == 6);
  CHECK(topology.smallest_node() == 1);
  CHECK(topology.largest_node() == 3);
  CHECK(topology.text() == "3x3");
}
