#include "runtime/data/shard.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

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

TEST_CASE("each sample is equally likely at each place", "[data]") {
  // 6 orders of 3 samples in 6000 epochs: 1000 each, with a standard deviation of 29.
  std::map<std::vector<uint32_t>, int> counts;
  for (uint64_t epoch = 0; epoch < 6000; ++epoch) ++counts[epoch_permutation(3, 1, epoch)];
  REQUIRE(counts.size() == 6);
  for (const auto& [order, count] : counts) CHECK(std::abs(count - 1000) < 130);
}

TEST_CASE("the leaves of all batches hold all samples, in order", "[data]") {
  const size_t num_leaves = GENERATE(1, 2, 3, 8);
  const size_t num_samples = GENERATE(1, 7, 64, 100);
  const size_t global_batch = GENERATE(1, 10, 64);
  const Division division = {num_samples, global_batch, num_leaves};
  size_t next = 0;
  std::set<size_t> sizes;
  for (size_t step = 0; step < division.num_steps(); ++step) {
    const size_t samples = division.samples_of(step);
    for (size_t leaf = 0; leaf < num_leaves; ++leaf) {
      const Share share = division.leaf(step, leaf);
      CHECK(share.first == next);
      CHECK(share.global_samples == samples);
      CHECK(share.count <= division.largest_leaf());
      if (samples == global_batch) {
        CHECK(share.count >= global_batch / num_leaves);
        CHECK(share.count <= division.usual_leaf());
      }
      if (share.count > 0) sizes.insert(share.count);
      next += share.count;
    }
  }
  CHECK(next == num_samples);
  CHECK(sizes == division.leaf_sizes());
}

TEST_CASE("leaves of a last, smaller batch are filled one after the other", "[data]") {
  const auto sizes = [](size_t samples) {
    const Division division = {128 + samples, 128, 4};
    std::vector<size_t> all;
    for (size_t leaf = 0; leaf < 4; ++leaf) all.push_back(division.leaf(1, leaf).count);
    return all;
  };
  CHECK(sizes(1) == std::vector<size_t>{1, 0, 0, 0});
  CHECK(sizes(8) == std::vector<size_t>{8, 0, 0, 0});
  CHECK(sizes(32) == std::vector<size_t>{32, 0, 0, 0});
  CHECK(sizes(47) == std::vector<size_t>{47, 0, 0, 0});  // 15 are less than half a leaf
  CHECK(sizes(48) == std::vector<size_t>{32, 16, 0, 0});
  CHECK(sizes(100) == std::vector<size_t>{32, 32, 36, 0});
  CHECK(sizes(127) == std::vector<size_t>{32, 32, 32, 31});
}

TEST_CASE("a last, smaller batch can be dropped", "[data]") {
  CHECK(Division{100, 32}.num_steps() == 4);
  CHECK(Division{100, 32, 1, LastBatch::Drop}.num_steps() == 3);
  CHECK(Division{96, 32, 1, LastBatch::Drop}.num_steps() == 3);
  CHECK(Division{31, 32, 1, LastBatch::Drop}.num_steps() == 0);
  CHECK(Division{100, 32, 2, LastBatch::Drop}.leaf_sizes() == std::set<size_t>{16});
}
