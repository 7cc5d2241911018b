#include "runtime/cache/visit_order.h"

#include <algorithm>
#include <limits>

#include "tests/support/catch.h"
#include "tests/unit/runtime/cache/stored_chunks.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;

namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

/// 12 training steps, the last of 9 samples, by one rank with one leaf of four.
VisitOrder training_order(const ChunkedDataset& data) {
  VisitOrder order;
  order.train_chunks = SampleChunks(data, data.dataset());
  order.division = {185, 16, 4};
  order.leaves = {{1, 1}};
  order.batches = {{}};
  return order;
}

/// The same, and 4 batches of validation: three of one rank, one of the other.
VisitOrder both_orders(const ChunkedDataset& data) {
  VisitOrder order = training_order(data);
  order.validation_chunks = SampleChunks(data, data.dataset());
  order.validation_batch = 64;
  order.leaves = {{0, 2}, {2, 2}};
  order.batches = {{0, 3}, {3, 1}};
  return order;
}

std::vector<uint32_t> chunks_from(uint32_t first, uint32_t end) {
  std::vector<uint32_t> chunks;
  for (uint32_t chunk = first; chunk < end; ++chunk) chunks.push_back(chunk);
  return chunks;
}

}  // namespace

TEST_CASE("the last step may look at more chunks than the others, and that many fit", "[cache]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  const VisitOrder order = training_order(data);
  CHECK(order.most_chunks_per_step() == 5);  // its leaf takes what is left of the batch along
  for (const auto& chunks : order.chunks_of(0)) CHECK(chunks.size() <= 5);
  CHECK(both_orders(data).most_chunks_per_step() == 50);
}

TEST_CASE("a step of validation looks at a batch of each rank that has one left", "[cache]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  const auto steps = both_orders(data).chunks_of(0);
  REQUIRE(steps.size() == 15);
  std::vector<uint32_t> first = chunks_from(0, 16);
  first.insert(first.end(), {48, 49});
  CHECK(steps[12] == first);
  CHECK(steps[13] == chunks_from(16, 32));
  CHECK(steps[14] == chunks_from(32, 48));
}

TEST_CASE("a rank knows the step in which it trains or validates next", "[cache]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  const VisitOrder order = both_orders(data);
  CHECK(order.next_training(11) == 11);
  CHECK(order.next_training(12) == 15);
  CHECK(order.next_training(14) == 15);
  CHECK(order.next_training(15) == 15);
  CHECK(order.next_validation(5, 1) == 12);
  CHECK(order.next_validation(12, 1) == 12);
  CHECK(order.next_validation(13, 1) == 27);
  CHECK(order.next_validation(13, 0) == 13);
  CHECK(order.next_validation(15, 0) == 27);
}

TEST_CASE("without validation no step is waited for in which a rank validates", "[cache]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  const VisitOrder trains = training_order(data);
  CHECK(trains.steps_per_epoch() == 12);
  CHECK(trains.next_validation(3, 0) == kNever);
  CHECK(trains.next_training(12) == 12);

  VisitOrder validates = both_orders(data);
  validates.division.num_samples = 0;
  CHECK(validates.next_training(0) == kNever);
  CHECK(validates.next_validation(1, 0) == 1);
  CHECK(validates.most_chunks_per_step() == 50);
}
