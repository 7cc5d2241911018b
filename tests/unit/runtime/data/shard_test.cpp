#include "runtime/data/shard.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "tests/support/catch.h"

using namespace dlflow::runtime;

TEST_CASE("an epoch's order has every sample once", "[data]") {
  const size_t num_samples = GENERATE(0, 1, 2, 17, 60000);
  auto order = epoch_permutation(num_samples, 7, 3);
  std::sort(order.begin(), order.end());
  std::vector<uint32_t> all(num_samples);
  std::iota(all.begin(), all.end(), 0u);
  CHECK(order == all);
}

TEST_CASE("the order depends on seed and epoch only", "[data]") {
  CHECK(epoch_permutation(100, 7, 3) == epoch_permutation(100, 7, 3));
  CHECK(epoch_permutation(100, 7, 3) != epoch_permutation(100, 8, 3));
  CHECK(epoch_permutation(100, 7, 3) != epoch_permutation(100, 7, 4));
}

TEST_CASE("each sample is as likely at each place", "[data]") {
  // 6 orders of 3 samples in 6000 epochs: 1000 each, with a standard deviation of 29.
  std::map<std::vector<uint32_t>, int> counts;
  for (uint64_t epoch = 0; epoch < 6000; ++epoch) ++counts[epoch_permutation(3, 1, epoch)];
  REQUIRE(counts.size() == 6);
  for (const auto& [order, count] : counts) CHECK(std::abs(count - 1000) < 130);
}

TEST_CASE("the leaves of all batches are all samples, in order", "[data]") {
  const size_t num_leaves = GENERATE(1, 2, 3, 8);
  const size_t num_samples = GENERATE(1, 7, 64, 100);
  const size_t global_batch = GENERATE(1, 10, 64);
  size_t next = 0;
  for (size_t step = 0; step < steps_per_epoch(num_samples, global_batch); ++step) {
    const size_t batch = std::min(global_batch, num_samples - step * global_batch);
    for (size_t leaf = 0; leaf < num_leaves; ++leaf) {
      const Share share = share_of(num_samples, global_batch, step, leaf, num_leaves);
      CHECK(share.first == next);
      CHECK(share.global_samples == batch);
      CHECK(share.count >= batch / num_leaves);
      CHECK(share.count <= (batch + num_leaves - 1) / num_leaves);
      next += share.count;
    }
  }
  CHECK(next == num_samples);
}
