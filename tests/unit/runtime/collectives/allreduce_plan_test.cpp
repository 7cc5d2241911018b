#include "runtime/collectives/allreduce_plan.h"

#include <cstdint>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

struct Ranks {
  int number, per_node;
};

/// "ring", or "hierarchical, ring" with what is used between nodes.
std::string way(Ranks ranks, const AllreduceOptions& options, size_t bytes) {
  ThreadGroup group(ranks.number, 10s, ranks.per_node);
  const AllreducePlan plan(group.communicator(0), options);
  const Algorithm algorithm = plan.over_all(bytes);
  std::string text(name(algorithm));
  if (algorithm != Algorithm::Hierarchical) return text;
  return text + ", " + std::string(name(plan.between_nodes(bytes)));
}

AllreduceOptions exact(int num_ranks, size_t num_leaves) {
  return {.order = sum_in_leaf_order(num_leaves, num_ranks)};
}

AllreduceOptions with_rules(AllreduceOptions options, const std::string& text) {
  options.rules = parse_rules(text, "test");
  return options;
}

constexpr size_t kSmall = 1000, kLarge = 1 << 20;

}  // namespace

TEST_CASE("without rules the topology decides", "[collectives]") {
  CHECK(way({4, 4}, {}, kLarge) == "shm");
  CHECK(way({4, 1}, {}, kSmall) == "recursive_doubling");
  CHECK(way({4, 1}, {}, kLarge) == "rabenseifner");
  CHECK(way({3, 1}, {}, kLarge) == "ring");
  CHECK(way({2, 1}, {}, kLarge) == "recursive_doubling");
  CHECK(way({4, 2}, {}, kSmall) == "hierarchical, recursive_doubling");
  CHECK(way({6, 2}, {}, kLarge) == "hierarchical, ring");
}

TEST_CASE("exact mode takes only what keeps its bits", "[collectives]") {
  CHECK(way({4, 4}, exact(4, 8), kLarge) == "shm");
  CHECK(way({4, 1}, exact(4, 8), kSmall) == "recursive_doubling");
  CHECK(way({4, 1}, exact(4, 8), kLarge) == "rabenseifner");
  CHECK(way({4, 1}, exact(4, 6), kLarge) == "direct");  // several parts on a rank
  CHECK(way({3, 1}, exact(3, 3), kLarge) == "direct");
  CHECK(way({8, 2}, exact(8, 8), kLarge) == "hierarchical, rabenseifner");
  CHECK(way({6, 2}, exact(6, 6), kLarge) == "hierarchical, direct");
  CHECK(way({6, 3}, exact(6, 6), kLarge) == "direct");  // a node is no subtree
  CHECK(way({7, 2}, exact(7, 7), kLarge) == "direct");
  CHECK(way({4, 1}, with_rules(exact(4, 4), "allreduce=ring:0-max"), kLarge) == "rabenseifner");
  CHECK(way({3, 1}, with_rules(exact(3, 3), "allreduce=tree:0-max"), kLarge) == "tree");
}

TEST_CASE("exact sums of halves are rounded once, so no partial sums of them travel",
          "[collectives]") {
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

TEST_CASE("rules are followed where they can be", "[collectives]") {
  CHECK(way({4, 2}, with_rules({}, "allreduce=ring:0-max"), kLarge) == "ring");
  CHECK(way({4, 2}, with_rules({}, "allreduce=shm:0-max"), kLarge) ==
        "hierarchical, recursive_doubling");
  CHECK(way({4, 4}, with_rules({}, "allreduce=hierarchical:0-max"), kLarge) == "shm");
  CHECK(way({4, 2}, with_rules({}, "allreduce=mpi:0-max"), kLarge) ==
        "hierarchical, recursive_doubling");  // threads have none
  CHECK(way({4, 2}, with_rules({}, "between_nodes=tree:0-8K;direct:8K-max"), kLarge) ==
        "hierarchical, direct");
}

TEST_CASE("numbers that are rounded on the wire are added where they are not", "[collectives]") {
  const AllreduceOptions narrow = {.wire = DataType::BFloat16};
  CHECK(way({4, 1}, narrow, kSmall) == "direct");
  CHECK(way({4, 2}, narrow, kSmall) == "hierarchical, direct");
  CHECK(way({4, 1}, with_rules(narrow, "allreduce=ring:0-max"), kLarge) == "direct");
  CHECK(way({4, 4}, narrow, kLarge) == "shm");
}
