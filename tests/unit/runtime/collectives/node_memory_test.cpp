#include "runtime/collectives/node_memory.h"

#include <algorithm>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"

using namespace dlflow::runtime;
using dlflow::test::on_ranks;
using Stage = NodeMemory::Stage;

namespace {

constexpr size_t kElements = 48;  // three cache lines

/// The memory of `ranks` ranks of a node, for one thread that plays all of them.
std::vector<NodeMemory> memory_of(ThreadGroup& group, int ranks) {
  return on_ranks(group, ranks, [&](Communicator& comm) {
    return NodeMemory(comm, kElements, DataType::Float32, std::vector<size_t>(size_t(ranks), 2));
  });
}

}  // namespace

TEST_CASE("a wait for a stage ends once all ranks of the node have announced it", "[collectives]") {
  ThreadGroup group(3);
  auto ranks = memory_of(group, 3);
  const Stage stage = GENERATE(Stage::Started, Stage::Reduced, Stage::Consumed);
  const Range range = {0, kElements, 1};
  NodeMemory::Announced wait(ranks[1], stage, range);
  CHECK(wait.poll() == Progress::None);
  CHECK(wait.peer() == 0);
  ranks[0].announce(stage, range);
  ranks[1].announce(stage, range);
  CHECK(wait.poll() == Progress::Some);
  CHECK(wait.peer() == 2);
  CHECK(wait.poll() == Progress::None);
  for (const Stage other : {Stage::Started, Stage::Reduced, Stage::Consumed}) {
    if (other != stage) ranks[2].announce(other, range);
  }
  ranks[2].announce(stage, {0, kElements, 2});
  CHECK(wait.poll() == Progress::None);
  ranks[2].announce(stage, range);
  CHECK(wait.poll() == Progress::Done);
}

TEST_CASE("numbers of ranges wrap around, and a rank may be one round of flags ahead",
          "[collectives]") {
  ThreadGroup group(2);
  auto ranks = memory_of(group, 2);
  uint32_t number = 5;
  for (int i = 0; i < 9; ++i, number += 1u << 30) {  // twice around
    const Range range = {0, kElements, number};
    auto wait = ranks[0].all_started(range);
    ranks[0].announce(Stage::Started, range);
    CHECK(wait.poll() == Progress::Some);
    ranks[1].announce(Stage::Started, {0, kElements, number - NodeMemory::kRangesAtATime});
    CHECK(wait.poll() == Progress::None);
    const bool ahead = i % 2 == 0;
    ranks[1].announce(Stage::Started,
                      {0, kElements, number + (ahead ? NodeMemory::kRangesAtATime : 0)});
    CHECK(wait.poll() == Progress::Done);
  }
}

TEST_CASE("a rank that started another call is waited for", "[collectives]") {
  ThreadGroup group(2);
  auto ranks = memory_of(group, 2);
  const Range range = {0, kElements, 1, 7}, other = {0, kElements, 1, 8};
  ranks[0].announce(Stage::Started, range);
  ranks[1].announce(Stage::Started, other);
  auto wait = ranks[0].all_started(range);
  CHECK(wait.poll() == Progress::Some);
  CHECK(wait.peer() == 1);
  CHECK(wait.poll() == Progress::None);
  ranks[1].announce(Stage::Started, range);
  CHECK(wait.poll() == Progress::Done);
}

TEST_CASE("a rank waits only for those that have a share of a sum", "[collectives]") {
  ThreadGroup group(3);
  auto ranks = memory_of(group, 3);
  const Range line = {16, 16, 1}, lines = {0, kElements, 2};
  REQUIRE(ranks[0].share(line, 0, 2).count == 0);
  auto for_line = ranks[0].all_reduced(line, 2);
  CHECK(for_line.poll() == Progress::Some);  // it does not wait for rank 0
  CHECK(for_line.peer() == 1);
  ranks[1].announce(Stage::Reduced, line);
  CHECK(for_line.poll() == Progress::Done);  // nor for rank 2

  auto for_lines = ranks[0].all_reduced(lines, 2);
  CHECK(for_lines.poll() == Progress::None);
  ranks[0].announce(Stage::Reduced, lines);
  ranks[1].announce(Stage::Reduced, lines);
  CHECK(for_lines.poll() == Progress::Done);
}

TEST_CASE("shared parts start at zero, do not overlap, and are the same for all ranks",
          "[collectives]") {
  ThreadGroup group(2);
  auto ranks = memory_of(group, 2);
  float number = 0;
  for (NodeMemory& rank : ranks) {
    for (size_t i = 0; i < 2; ++i) {
      const std::span<float> part = rank.part(i).floats();
      CHECK(std::ranges::count(part, 0.0f) == long(kElements));
      std::ranges::fill(part, ++number);
    }
  }
  for (const NodeMemory& rank : ranks) {
    REQUIRE(rank.parts().size() == 4);
    for (size_t i = 0; i < 4; ++i) {
      CHECK(std::ranges::count(rank.parts()[i].floats(), float(i + 1)) == long(kElements));
    }
    const size_t own = size_t(rank.rank());
    CHECK(rank.values()[0].data == rank.parts()[2 * own].data);
    CHECK(rank.values()[1].data == rank.parts()[2 * (1 - own)].data);
  }
}
