#include "runtime/reduce/leaf_sums.h"

#include "base/random.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;

namespace {

using Numbers = std::vector<double>;

/// The numbers of a leaf in one of the calls.
Numbers numbers_of(size_t leaf, size_t count) {
  RandomStream random(count, RandomUse::Initialization, uint32_t(leaf));
  Numbers numbers(count);
  for (double& number : numbers) number = double(random.uniform()) - 0.5;
  return numbers;
}

/// The numbers of each leaf after each of two calls, on that many ranks.
std::vector<Numbers> sums_on(int num_ranks, size_t num_leaves) {
  const auto of_ranks = on_ranks(num_ranks, [&](Communicator& comm) {
    LeafSums sums(comm, num_leaves);
    const LeafShare& share = sums.shares()[size_t(comm.rank())];
    std::vector<Numbers> results;
    for (const size_t count : {size_t(3), size_t(40)}) {
      std::vector<Numbers> own;
      for (size_t i = 0; i < share.count; ++i) own.push_back(numbers_of(share.first + i, count));
      const std::vector<std::span<double>> spans(own.begin(), own.end());
      sums.add(spans, count);
      results.insert(results.end(), own.begin(), own.end());
    }
    return results;
  });
  std::vector<Numbers> all;
  for (const auto& results : of_ranks) all.insert(all.end(), results.begin(), results.end());
  std::ranges::stable_sort(all, {}, &Numbers::size);
  return all;
}

}  // namespace

TEST_CASE("every leaf gets the sum over all leaves, with the same bits on any number of ranks",
          "[reduce]") {
  const size_t num_leaves = GENERATE(1, 5, 8);
  const std::vector<Numbers> alone = sums_on(1, num_leaves);
  REQUIRE(alone.size() == 2 * num_leaves);
  for (const Numbers& sums : alone) {
    Numbers expected(sums.size());
    for (size_t leaf = 0; leaf < num_leaves; ++leaf) {
      const Numbers numbers = numbers_of(leaf, sums.size());
      for (size_t i = 0; i < sums.size(); ++i) expected[i] += numbers[i];
    }
    for (size_t i = 0; i < sums.size(); ++i) CHECK(sums[i] == Approx(expected[i]).margin(1e-12));
  }
  const int num_ranks = GENERATE(2, 3, 9);  // with 9 ranks, one has nothing to add
  CHECK(sums_on(num_ranks, num_leaves) == alone);
}
