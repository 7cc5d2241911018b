#include "runtime/collectives/node_sum.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "base/float16.h"
#include "runtime/comm/thread_communicator.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"

using namespace dlflow;
using namespace dlflow::runtime;
using dlflow::test::on_ranks;

namespace {

constexpr size_t kPiece = (256 << 10) / sizeof(float);  // elements that are summed at a time

/// The sums of `ranks` ranks of a node, for one thread that plays all of them.
std::vector<std::unique_ptr<NodeSum>> sums_of(ThreadGroup& group, int ranks, DataType type) {
  return on_ranks(group, ranks,
                  [&](Communicator& comm) { return std::make_unique<NodeSum>(comm, type); });
}

/// Small integers, whose sums are exact in any order.
std::vector<float> numbers_of(int rank, size_t count, size_t sum) {
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) {
    numbers[i] = float((i * 7 + size_t(rank) * 31 + sum * 13) % 1000);
  }
  return numbers;
}

std::vector<float> expected(int ranks, size_t count, size_t sum) {
  std::vector<float> total(count);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> numbers = numbers_of(rank, count, sum);
    for (size_t i = 0; i < count; ++i) total[i] += numbers[i];
  }
  return total;
}

Task one_after_the_other(NodeSum& sums, std::vector<std::vector<float>>& buffers) {
  for (std::vector<float>& buffer : buffers) co_await sums.sum(Values(buffer), Values(buffer));
}

/// Polls tasks in the order chosen by `random`, and sometimes one of them for long.
void finish_in_any_order(std::vector<Task>& tasks, std::mt19937& random) {
  std::vector<size_t> left;
  for (size_t i = 0; i < tasks.size(); ++i) left.push_back(i);
  while (!left.empty()) {
    const size_t chosen = random() % left.size();
    for (size_t polls = 1 + random() % 8; polls > 0; --polls) {
      if (tasks[left[chosen]].poll() != Progress::Done) continue;
      left.erase(left.begin() + long(chosen));
      break;
    }
  }
}

}  // namespace

TEST_CASE("ranks of a node sum their buffers, at any speed of each rank", "[node_sum]") {
  const int ranks = GENERATE(1, 2, 3, 5);
  const uint32_t seed = GENERATE(range(1u, 9u));
  CAPTURE(ranks, seed);
  // Successive sums have different shares.
  const std::vector<size_t> counts = {5 * kPiece + 37, 1,   0,   16,         17,   kPiece,
                                      kPiece - 1,      100, 700, 2 * kPiece, 1000, kPiece + 1,
                                      kPiece,          3};
  ThreadGroup group(ranks);
  const auto sums = sums_of(group, ranks, DataType::Float32);
  std::vector<std::vector<std::vector<float>>> buffers(static_cast<size_t>(ranks));
  std::vector<Task> tasks;
  for (int rank = 0; rank < ranks; ++rank) {
    auto& own = buffers[size_t(rank)];
    for (size_t i = 0; i < counts.size(); ++i) own.push_back(numbers_of(rank, counts[i], i));
    tasks.push_back(one_after_the_other(*sums[size_t(rank)], own));
  }
  std::mt19937 random(seed);
  finish_in_any_order(tasks, random);
  for (size_t i = 0; i < counts.size(); ++i) {
    CAPTURE(i);
    const std::vector<float> total = expected(ranks, counts[i], i);
    for (int rank = 0; rank < ranks; ++rank) CHECK(buffers[size_t(rank)][i] == total);
  }
}

TEST_CASE("a sum may go to another buffer, or to one rank only", "[node_sum]") {
  constexpr size_t kCount = 2 * kPiece + 5;
  ThreadGroup group(3);
  const auto sums = sums_of(group, 3, DataType::Float32);
  std::vector<std::vector<float>> inputs;
  for (int rank = 0; rank < 3; ++rank) inputs.push_back(numbers_of(rank, kCount, 0));
  std::vector<float> output(kCount);
  std::vector<Task> tasks;
  for (size_t rank = 0; rank < 3; ++rank) {
    tasks.push_back(sums[rank]->sum(Values(inputs[rank]), rank == 1 ? Values(output) : Values()));
  }
  std::mt19937 random(1);
  finish_in_any_order(tasks, random);
  CHECK(output == expected(3, kCount, 0));
  for (int rank = 0; rank < 3; ++rank) CHECK(inputs[size_t(rank)] == numbers_of(rank, kCount, 0));
}

TEST_CASE("16-bit floats are added as fp32, rounded once, and then divided", "[node_sum]") {
  // 2049 is not representable in 16 bits: added one by one, the ones would be lost.
  constexpr size_t kCount = 100;
  ThreadGroup group(3);
  const auto sums = sums_of(group, 3, DataType::Float16);
  const int divisor = GENERATE(1, 3);
  std::vector<std::vector<Float16>> buffers;
  std::vector<Task> tasks;
  for (const float number : {2048.0f, 1.0f, 1.0f}) {
    buffers.emplace_back(kCount, narrow_to_float16(number));
  }
  for (size_t rank = 0; rank < 3; ++rank) {
    const Values values(reinterpret_cast<std::byte*>(buffers[rank].data()), kCount,
                        DataType::Float16);
    tasks.push_back(sums[rank]->sum(values, values, divisor));
  }
  std::mt19937 random(1);
  finish_in_any_order(tasks, random);
  const float mean = widen(narrow_to_float16(2050.0f / float(divisor)));
  for (const auto& buffer : buffers) {
    CHECK(std::ranges::all_of(buffer, [&](Float16 half) { return widen(half) == mean; }));
  }
}

TEST_CASE("a sum names the rank that it waits for", "[node_sum]") {
  ThreadGroup group(3);
  const auto sums = sums_of(group, 3, DataType::Float32);
  std::vector<std::vector<float>> buffers(3, std::vector<float>(48, 1.0f));
  const auto start = [&](size_t rank) {
    return sums[rank]->sum(Values(buffers[rank]), Values(buffers[rank]));
  };
  const auto stop_at = [](Task& task) {
    while (task.poll() == Progress::Some) {
    }
    return task.peer();
  };
  Task first = start(0), second = start(1), third = start(2);
  CHECK(stop_at(first) == 1);
  CHECK(stop_at(third) == 1);
  CHECK(stop_at(second) == 0);  // all have offered, but rank 0 has not added its share
  CHECK(stop_at(first) == 2);
}
