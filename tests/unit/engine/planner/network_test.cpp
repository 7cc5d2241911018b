#include "engine/planner/network.h"

#include "tests/support/catch.h"

using namespace dlflow::planner;

namespace {

constexpr double kAlpha = 100e-6, kBeta = 8e-9;

double ring(int ranks, double bytes) {
  return 2 * (ranks - 1) * kAlpha + 2.0 * (ranks - 1) / ranks * bytes * kBeta;
}

std::vector<NetworkTime> rings(int ranks, int nodes) {
  std::vector<NetworkTime> times;
  for (double bytes = 1024; bytes <= 16777216; bytes *= 4) {
    times.push_back({ranks, nodes, "ring", bytes, ring(ranks, bytes)});
  }
  return times;
}

}  // namespace

TEST_CASE("the cost of an all-reduce follows from its algorithm", "[planner]") {
  const AlphaBeta of_ring = allreduce_terms("ring", 4, 1000);
  CHECK(of_ring.alpha == 6);
  CHECK(of_ring.beta == 1500);
  const AlphaBeta halving = allreduce_terms("rabenseifner", 4, 1000);
  CHECK(halving.alpha == 4);
  CHECK(halving.beta == 1500);
  const AlphaBeta doubling = allreduce_terms("recursive_doubling", 4, 1000);
  CHECK(doubling.alpha == 2);
  CHECK(doubling.beta == 2000);
  const AlphaBeta tree = allreduce_terms("tree", 8, 1000);
  CHECK(tree.alpha == 6);
  CHECK(tree.beta == 6000);
  CHECK(allreduce_terms("ring", 1, 1000).alpha == 0);
}

TEST_CASE("ranks that were not measured have the cost of the formula", "[planner]") {
  const Network network(rings(2, 2));
  CHECK(network.allreduce(2, 2, 65536) == Approx(ring(2, 65536)));
  CHECK(network.allreduce(2, 2, 100000) == Approx(ring(2, 100000)));  // between two sizes
  CHECK(network.allreduce(4, 4, 65536) == Approx(ring(4, 65536)));
  CHECK(network.allreduce(1, 1, 65536) == 0);
  CHECK(network.link(2).beta == Approx(kBeta));
}

TEST_CASE("more than two ranks send large sums by halves, as the runtime does", "[planner]") {
  std::vector<NetworkTime> times;
  for (double bytes = 1024; bytes <= 16777216; bytes *= 4) {
    times.push_back({2, 2, "recursive_doubling", bytes, kAlpha + bytes * kBeta});
  }
  const Network network(times);
  CHECK(network.allreduce(4, 4, 16384) == Approx(2 * (kAlpha + 16384 * kBeta)));
  CHECK(network.allreduce(4, 4, 1 << 20) == Approx(4 * kAlpha + 1.5 * (1 << 20) * kBeta));
  CHECK(network.allreduce(3, 3, 1 << 20) == Approx(ring(3, 1 << 20)));
  CHECK(network.further_rounds(4, 4, 1 << 20) == 3);  // 2 lg 4 instead of 1
  CHECK(network.further_rounds(2, 2, 1 << 20) == 0);
}

TEST_CASE("a level that was not measured is not predicted", "[planner]") {
  const Network network(rings(2, 2));
  CHECK(network.knows(1, 1));
  CHECK(network.knows(4, 4));
  CHECK_FALSE(network.knows(2, 1));
}

TEST_CASE("two ranks on each of two nodes send a half of the sum between nodes", "[planner]") {
  std::vector<NetworkTime> times = rings(2, 2);
  for (double bytes = 1024; bytes <= 16777216; bytes *= 4) {  // 10 us, 0.1 ns/byte on a node
    times.push_back({2, 1, "ring", bytes, 2 * 10e-6 + bytes * 1e-10});
  }
  const Network network(times);
  const double bytes = 1 << 20;
  const double within = 2 * 10e-6 + bytes * 1e-10;
  CHECK(network.allreduce(4, 2, bytes) == Approx(within + ring(2, bytes / 2)).epsilon(0.01));
}

TEST_CASE("half the bandwidth doubles the time of large sums", "[planner]") {
  const Network half = Network(rings(2, 2), 0.5);
  const double bytes = 1 << 24;
  CHECK(half.allreduce(2, 2, bytes) == Approx(ring(2, bytes) + bytes * kBeta));
  CHECK(half.link(2).beta == Approx(2 * kBeta));
}

TEST_CASE("the fastest of several algorithms is used", "[planner]") {
  const Network network({{2, 1, "ring", 1000, 0.5}, {2, 1, "shm", 1000, 0.1}});
  CHECK(network.allreduce(2, 1, 1000) == Approx(0.1));
  CHECK(network.allreduce(2, 1, 4000) == Approx(0.4));  // beyond the largest: by bytes
  CHECK(network.allreduce(2, 1, 10) == Approx(0.1));    // below the smallest
}
