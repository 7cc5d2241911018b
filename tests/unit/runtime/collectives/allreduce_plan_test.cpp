#include "runtime/collectives/allreduce_plan.h"

#include <cstdint>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"
#include "tests/unit/runtime/collectives/other_ranks.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

constexpr size_t kSmall = 1000, kLarge = 1 << 20;

struct Ranks {
  int number, per_node;
};

/// "ring", or "hierarchical, ring" with the algorithm between nodes.
std::string way(const Communicator& comm, const AllreduceOptions& options, size_t bytes) {
  const AllreducePlan plan(comm, options);
  const Algorithm algorithm = plan.over_all(bytes);
  std::string text(name(algorithm));
  if (algorithm != Algorithm::Hierarchical) return text;
  return text + ", " + std::string(name(plan.between_nodes(bytes)));
}

std::string way(Ranks ranks, const AllreduceOptions& options, size_t bytes) {
  ThreadGroup group(ranks.number, 10s, ranks.per_node);
  return way(group.communicator(0), options, bytes);
}

/// The same for ranks on these nodes, such as `{0, 1, 0, 1}`.
std::string way_on(const std::vector<int>& nodes, const AllreduceOptions& options) {
  ThreadGroup group(int(nodes.size()));
  return way(PlacedRank(group.communicator(0), nodes), options, kLarge);
}

/// The same with a library that can sum.
std::string way_with_library(AllreduceOptions options) {
  ThreadGroup group(4, 10s, 1);
  options.rules = parse_rules("allreduce=mpi:0-max between_nodes=mpi:0-max", "test");
  return way(LibraryRank(group.communicator(0)), options, kLarge);
}

AllreduceOptions exact(int num_ranks, size_t num_leaves) {
  return {.order = sum_in_leaf_order(num_leaves, num_ranks)};
}

AllreduceOptions with_rules(AllreduceOptions options, const std::string& text) {
  options.rules = parse_rules(text, "test");
  return options;
}

}  // namespace

TEST_CASE("without rules the topology decides", "[collectives]") {
  CHECK(way({4, 4}, {}, kLarge) == "shm");
  CHECK(way({4, 1}, {}, kSmall) == "recursive_doubling");
  CHECK(way({4, 1}, {}, kLarge) == "rabenseifner");
  CHECK(way({3, 1}, {}, kSmall) == "recursive_doubling");
  CHECK(way({3, 1}, {}, kLarge) == "ring");
  CHECK(way({2, 1}, {}, kLarge) == "recursive_doubling");
  CHECK(way({4, 2}, {}, kSmall) == "hierarchical, recursive_doubling");
  CHECK(way({6, 2}, {}, kLarge) == "hierarchical, ring");
}

TEST_CASE("the algorithm is chosen by messages up to 32 KiB, and by bytes above", "[collectives]") {
  CHECK(way({4, 1}, {}, 32768) == "recursive_doubling");
  CHECK(way({4, 1}, {}, 32769) == "rabenseifner");
  CHECK(way({8, 2}, {}, 32768) == "hierarchical, recursive_doubling");
  CHECK(way({8, 2}, {}, 32769) == "hierarchical, rabenseifner");
}

TEST_CASE("in exact mode a node sums first if its ranks are neighbours", "[collectives]") {
  CHECK(way_on({0, 0, 1, 1}, exact(4, 4)) == "hierarchical, recursive_doubling");
  CHECK(way_on({0, 1, 0, 1}, exact(4, 4)) == "direct");
  CHECK(way_on({0, 1, 1, 0}, exact(4, 4)) == "direct");
  CHECK(way_on({0, 1, 1, 0, 2, 2}, exact(6, 6)) == "direct");
  CHECK(way_on({0, 1, 1, 2, 2, 0}, exact(6, 6)) == "direct");
  CHECK(way_on({0, 0, 1, 1, 2}, exact(5, 5)) == "direct");
  CHECK(way_on({0, 1, 0, 1}, {}) == "hierarchical, recursive_doubling");
  CHECK(way_on({0, 0, 1, 1}, exact(4, 6)) == "direct");  // several parts on a rank
}

TEST_CASE("a library sums the types that it supports, in its own order", "[collectives]") {
  CHECK(way_with_library({}) == "mpi");
  CHECK(way_with_library({.type = DataType::Int64}) == "mpi");
  CHECK(way_with_library({.type = DataType::Float16}) == "rabenseifner");
  CHECK(way_with_library(exact(4, 4)) == "rabenseifner");
  CHECK(way_with_library({.wire = DataType::BFloat16}) == "direct");
}

TEST_CASE("sums by a function of the caller take two levels on request", "[collectives]") {
  const auto by_others = [](bool nodes_first) {
    AllreduceOptions options;
    options.by_messages = [](Link, size_t, std::span<float>) -> Task { co_return; };
    options.nodes_first = nodes_first;
    return with_rules(options, "allreduce=ring:0-max");
  };
  CHECK(way({4, 2}, by_others(true), kLarge).starts_with("hierarchical"));
  CHECK(way({4, 4}, by_others(true), kLarge).starts_with("hierarchical"));
  CHECK(way({4, 1}, by_others(true), kLarge) == "direct");
  CHECK(way({4, 2}, by_others(false), kLarge) == "direct");
}

TEST_CASE("exact mode takes only algorithms that keep its bits", "[collectives]") {
  CHECK(way({4, 4}, exact(4, 8), kLarge) == "shm");
  CHECK(way({4, 1}, exact(4, 8), kSmall) == "recursive_doubling");
  CHECK(way({4, 1}, exact(4, 8), kLarge) == "rabenseifner");
  CHECK(way({4, 1}, exact(4, 6), kLarge) == "direct");  // several parts on a rank
  CHECK(way({3, 1}, exact(3, 3), kSmall) == "direct");
  CHECK(way({3, 1}, exact(3, 3), kLarge) == "direct");
  CHECK(way({8, 2}, exact(8, 8), kLarge) == "hierarchical, rabenseifner");
  CHECK(way({6, 2}, exact(6, 6), kLarge) == "hierarchical, direct");
  CHECK(way({6, 3}, exact(6, 6), kLarge) == "direct");  // a node is not a subtree
  CHECK(way({7, 2}, exact(7, 7), kLarge) == "direct");
  CHECK(way({4, 1}, with_rules(exact(4, 4), "allreduce=ring:0-max"), kLarge) == "rabenseifner");
  CHECK(way({3, 1}, with_rules(exact(3, 3), "allreduce=tree:0-max"), kLarge) == "tree");
}

TEST_CASE("exact sums of halves are rounded once, so no partial sums are sent", "[collectives]") {
  const auto of = [](DataType type, AllreduceOptions options) {
    options.type = type;
    return options;
  };
  CHECK(way({4, 4}, of(DataType::Float16, exact(4, 8)), kLarge) == "shm");
  CHECK(way({4, 1}, of(DataType::Float16, exact(4, 4)), kLarge) == "direct");
  CHECK(way({8, 2}, of(DataType::BFloat16, exact(8, 8)), kLarge) == "direct");
  CHECK(way({8, 2}, of(DataType::BFloat16, {}), kLarge) == "hierarchical, rabenseifner");
  CHECK(way({8, 2}, of(DataType::Int64, exact(8, 8)), kLarge) == "hierarchical, rabenseifner");
}

TEST_CASE("rules are followed where their algorithm can be used", "[collectives]") {
  CHECK(way({4, 2}, with_rules({}, "allreduce=ring:0-max"), kLarge) == "ring");
  CHECK(way({4, 2}, with_rules({}, "allreduce=shm:0-max"), kLarge) ==
        "hierarchical, recursive_doubling");
  CHECK(way({4, 4}, with_rules({}, "allreduce=hierarchical:0-max"), kLarge) == "shm");
  CHECK(way({4, 2}, with_rules({}, "allreduce=mpi:0-max"), kLarge) ==
        "hierarchical, recursive_doubling");  // threads have no such library
  CHECK(way({4, 2}, with_rules({}, "between_nodes=tree:0-8K;direct:8K-max"), kLarge) ==
        "hierarchical, direct");
}

TEST_CASE("numbers that are rounded on the wire are added in full precision", "[collectives]") {
  const AllreduceOptions narrow = {.wire = DataType::BFloat16};
  CHECK(way({4, 1}, narrow, kSmall) == "direct");
  CHECK(way({4, 2}, narrow, kSmall) == "hierarchical, direct");
  CHECK(way({4, 1}, with_rules(narrow, "allreduce=ring:0-max"), kLarge) == "direct");
  CHECK(way({4, 4}, narrow, kLarge) == "shm");
}
