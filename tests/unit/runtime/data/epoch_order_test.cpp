#include "runtime/data/epoch_order.h"

#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/data/shard.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

constexpr uint64_t kSeed = 5;

/// Memory for the orders of some ranks.
AlignedFloats memory_for(size_t num_samples, int num_ranks) {
  return make_aligned_floats(EpochOrder::bytes_for(num_samples, num_ranks) / sizeof(float));
}

std::byte* bytes_of(const AlignedFloats& memory) {
  return reinterpret_cast<std::byte*>(memory.get());
}

std::vector<uint32_t> copy(std::span<const uint32_t> order) { return {order.begin(), order.end()}; }

}  // namespace

TEST_CASE("a single rank can go through the epochs in any order", "[data]") {
  const size_t num_samples = GENERATE(0, 1, 100);
  EpochOrder order(num_samples, kSeed);
  for (const uint64_t epoch : {0, 1, 7, 2}) {
    CHECK(copy(order.enter(epoch)) == epoch_permutation(num_samples, kSeed, epoch));
    order.leave();
  }
}

TEST_CASE("ranks keep the order of their epoch for as long as they need it", "[data][threads]") {
  constexpr int kRanks = 4;
  constexpr uint64_t kFirst = 3, kEnd = 60;
  constexpr size_t kSamples = 200;
  const AlignedFloats memory = memory_for(kSamples, kRanks + 1);
  std::vector<int> right(kRanks);
  EpochOrder server(kSamples, kSeed, bytes_of(memory), kRanks + 1, kRanks, false);
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks.emplace_back([&, rank] {
        EpochOrder order(kSamples, kSeed, bytes_of(memory), kRanks + 1, rank);
        for (uint64_t epoch = kFirst; epoch < kEnd; ++epoch) {
          const auto mine = order.enter(epoch);
          if (epoch % kRanks == uint64_t(rank)) std::this_thread::yield();
          right[size_t(rank)] += copy(mine) == epoch_permutation(kSamples, kSeed, epoch) ? 1 : 0;
          order.leave();
        }
      });
    }
  }
  CHECK(right == std::vector<int>(kRanks, kEnd - kFirst));
}

TEST_CASE("a rank that waits for a slower one's order can be stopped", "[data][threads]") {
  const AlignedFloats memory = memory_for(10, 2);
  EpochOrder slow(10, kSeed, bytes_of(memory), 2, 0), fast(10, kSeed, bytes_of(memory), 2, 1);
  const auto first = copy(slow.enter(0));
  CHECK(copy(fast.enter(0)) == first);
  fast.leave();
  std::jthread stops([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    fast.stop();
  });
  CHECK_THROWS_AS(fast.enter(1), Error);
  CHECK(first == epoch_permutation(10, kSeed, 0));
  slow.leave();
  CHECK(copy(slow.enter(0)) == first);
}

TEST_CASE("making an order for other ranks counts as progress", "[data]") {
  std::atomic<uint64_t> progress = 0;
  EpochOrder order(size_t{1} << 20, kSeed);
  order.enter(0, &progress);
  CHECK(progress > 0);
}
