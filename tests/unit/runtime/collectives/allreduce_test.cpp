#include "runtime/collectives/allreduce.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/on_ranks.h"
#include "tests/unit/runtime/collectives/other_ranks.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

/// The values of `rank`, in [-1, 1), so that the order of additions changes the bits.
std::vector<float> values_of(int rank, size_t num_elements) {
  RandomStream random(1, RandomUse::Initialization, uint32_t(rank));
  std::vector<float> values(num_elements);
  for (float& value : values) value = 2 * random.uniform() - 1;
  return values;
}

std::vector<double> exact_sum(int num_ranks, size_t num_elements) {
  std::vector<double> sums(num_elements);
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto values = values_of(rank, num_elements);
    for (size_t i = 0; i < num_elements; ++i) sums[i] += values[i];
  }
  return sums;
}

/// The largest |value - expected|; infinite if the sizes differ.
double distance(const std::vector<float>& values, const std::vector<double>& expected) {
  if (values.size() != expected.size()) return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, std::abs(values[i] - expected[i]));
  }
  return largest;
}

/// Adding P values in [-1, 1) rounds P-1 times a sum below P: |error| < (P-1) * P * 2^-24.
double tolerance(int num_ranks) { return num_ranks * num_ranks * 0x1p-24; }

/// All of `allreduce`'s values as one range.
std::vector<float> reduce(Allreduce& allreduce, const std::vector<float>& mine) {
  std::copy(mine.begin(), mine.end(), allreduce.values().begin());
  allreduce.start(0, mine.size());
  allreduce.finish();
  return {allreduce.values().begin(), allreduce.values().end()};
}

std::vector<float> reduce_fast(Communicator& comm, size_t num_elements) {
  Allreduce allreduce(comm, num_elements);
  return reduce(allreduce, values_of(comm.rank(), num_elements));
}

std::vector<float> reduce_ordered(Communicator& comm, size_t num_elements) {
  Allreduce allreduce(comm, num_elements, {.order = sum_in_rank_order(comm.size())});
  return reduce(allreduce, values_of(comm.rank(), num_elements));
}

/// Each algorithm for every size, alone and between nodes.
const std::vector<RuleSet> kWays = [] {
  std::vector<RuleSet> ways = {RuleSet{}};
  for (const Algorithm algorithm : kAlgorithms) {
    const Rules always = {{algorithm, 0, SIZE_MAX}};
    ways.push_back({always, {}});
    ways.push_back({{{Algorithm::Hierarchical, 0, SIZE_MAX}}, always});
  }
  return ways;
}();

/// The sum over `num_leaves` leaves with the values values_of(leaf); each rank adds up its own
/// leaves in the required order.
std::vector<float> reduce_leaves(Communicator& comm, Allreduce& allreduce, size_t num_leaves,
                                 size_t num_elements) {
  const LeafShare share = leaf_share(num_leaves, comm.rank(), comm.size());
  std::vector<std::vector<float>> stack;
  for (size_t i = 0; i < share.count; ++i) {
    stack.push_back(values_of(int(share.first + i), num_elements));
    for (int n = share.additions[i]; n > 0; --n) {
      const std::vector<float> right = stack.back();
      stack.pop_back();
      for (size_t k = 0; k < num_elements; ++k) stack.back()[k] += right[k];
    }
  }
  for (size_t i = 0; i < stack.size(); ++i) {
    std::copy(stack[i].begin(), stack[i].end(), allreduce.part(i).begin());
  }
  allreduce.start(0, num_elements);
  allreduce.finish();
  return {allreduce.values().begin(), allreduce.values().end()};
}

/// Computed independently of SumOrder.
float tree_sum(const std::vector<float>& leaves) {
  std::vector<float> row = leaves;
  while (row.size() > 1) {
    std::vector<float> next;
    for (size_t i = 0; i < row.size(); i += 2) {
      next.push_back(i + 1 < row.size() ? row[i] + row[i + 1] : row[i]);
    }
    row = next;
  }
  return row[0];
}

}  // namespace

TEST_CASE("every all-reduce leaves the sum on every rank, with the same bits", "[collectives]") {
  const auto algorithm = GENERATE(reduce_fast, reduce_ordered);
  const int num_ranks = GENERATE(1, 2, 3, 4, 7);
  const int ranks_per_node = GENERATE(0, 1);  // shared memory; messages
  // None, fewer than ranks, an odd number, many cache lines, and enough for several messages per
  // part of the ring.
  const size_t num_elements = GENERATE(0, 1, 17, 1000, 70000, 300001);

  ThreadGroup group(num_ranks, 10s, ranks_per_node);
  const auto results =
      on_ranks(group, num_ranks, [&](Communicator& comm) { return algorithm(comm, num_elements); });

  CHECK(distance(results[0], exact_sum(num_ranks, num_elements)) <= tolerance(num_ranks));
  for (const auto& result : results) CHECK(result == results[0]);
}

TEST_CASE("all ranks have the sum with the same bits under any rules", "[collectives]") {
  const RuleSet rules = GENERATE(from_range(kWays));
  const int num_ranks = GENERATE(1, 2, 3, 4, 6, 7, 8, 16);
  const int ranks_per_node = GENERATE(0, 1, 2, 3, 4);
  constexpr size_t kElements = 1001;
  ThreadGroup group(num_ranks, 10s, ranks_per_node);
  const auto results = on_ranks(group, num_ranks, [&](Communicator& comm) {
    Allreduce allreduce(comm, kElements, {.rules = rules});
    return reduce(allreduce, values_of(comm.rank(), kElements));
  });
  CAPTURE(to_text(rules), num_ranks, ranks_per_node);
  CHECK(distance(results[0], exact_sum(num_ranks, kElements)) <= tolerance(num_ranks));
  CHECK(std::ranges::count(results, results[0]) == num_ranks);
}

TEST_CASE("sixteen bits on the wire round each number once, and the sum once", "[collectives]") {
  const auto [wire, epsilon] = GENERATE(
      table<DataType, double>({{DataType::Float16, 0x1p-11}, {DataType::BFloat16, 0x1p-8}}));
  const RuleSet rules = GENERATE(from_range(kWays));
  const int num_ranks = GENERATE(2, 3, 4, 8);
  const int ranks_per_node = GENERATE(0, 1, 2);
  constexpr size_t kElements = 1001;
  ThreadGroup group(num_ranks, 10s, ranks_per_node);
  const auto results = on_ranks(group, num_ranks, [&](Communicator& comm) {
    Allreduce allreduce(comm, kElements, {.wire = wire, .rules = rules});
    return reduce(allreduce, values_of(comm.rank(), kElements));
  });
  // P values of at most 1, or fewer sums of nodes, are each rounded; then their sum is.
  const bool travels = ranks_per_node != 0 && num_ranks > ranks_per_node;
  const double rounding = travels ? 2 * num_ranks * epsilon : 0;
  const double error = distance(results[0], exact_sum(num_ranks, kElements));
  CHECK(error <= tolerance(num_ranks) + rounding);
  CHECK((error > tolerance(num_ranks)) == travels);
  CHECK(std::ranges::count(results, results[0]) == num_ranks);
}

TEST_CASE("shared memory sums in rank order", "[collectives]") {
  // 1 + 2^-24 rounds to 1; adding 2^-24 twice first would not.
  const std::vector<float> values = {1.0f, 0x1p-24f, 0x1p-24f};
  const auto results = on_ranks(3, [&](Communicator& comm) {
    Allreduce allreduce(comm, 1);
    return reduce(allreduce, {values[comm.rank()]});
  });
  CHECK(results[0] == std::vector{1.0f});
}

TEST_CASE("ranges are reduced separately, and the rest stays unchanged", "[collectives]") {
  const int ranks_per_node = GENERATE(1, 3);
  ThreadGroup group(3, 10s, ranks_per_node);
  const auto results = on_ranks(group, 3, [](Communicator& comm) {
    Allreduce allreduce(comm, 100);
    std::fill(allreduce.values().begin(), allreduce.values().end(), 1.0f);
    allreduce.start(60, 40);
    allreduce.start(16, 1);
    allreduce.start(20, 0);
    allreduce.finish();
    return std::vector(allreduce.values().begin(), allreduce.values().end());
  });
  std::vector<float> expected(100, 1.0f);
  std::fill(expected.begin() + 60, expected.end(), 3.0f);
  expected[16] = 3.0f;
  for (const auto& result : results) CHECK(result == expected);
}

TEST_CASE("many steps in one buffer never mix their numbers", "[collectives]") {
  const int num_ranks = GENERATE(2, 4);
  constexpr size_t kElements = 333;
  constexpr int kSteps = 200;
  const auto wrong = on_ranks(num_ranks, [&](Communicator& comm) {
    Allreduce allreduce(comm, kElements);
    int wrong_values = 0;
    for (int step = 0; step < kSteps; ++step) {
      const auto values = allreduce.values();
      std::fill(values.begin(), values.end(), float(step + comm.rank()));
      allreduce.start(200, kElements - 200);
      allreduce.start(0, 200);
      allreduce.finish();
      const float sum = float(num_ranks * step + num_ranks * (num_ranks - 1) / 2);
      for (const float value : values) wrong_values += value != sum;
    }
    return wrong_values;
  });
  CHECK(wrong == std::vector(num_ranks, 0));
}

TEST_CASE("ranges can be waited for one by one, in any order", "[collectives]") {
  const int ranks_per_node = GENERATE(1, 3);
  ThreadGroup group(3, 10s, ranks_per_node);
  const auto results = on_ranks(group, 3, [](Communicator& comm) {
    Allreduce allreduce(comm, 300);
    std::fill(allreduce.values().begin(), allreduce.values().end(), 1.0f);
    const auto first = allreduce.start(0, 100), second = allreduce.start(100, 100);
    allreduce.wait(second);
    const bool second_is_done = allreduce.done(second);
    // The others cannot have started the third.
    const auto third = allreduce.start(200, 100);
    allreduce.wait(first);
    std::vector<float> sums(allreduce.values().begin(), allreduce.values().begin() + 200);
    allreduce.wait(third);
    sums.insert(sums.end(), allreduce.values().begin() + 200, allreduce.values().end());
    return std::pair(second_is_done, sums);
  });
  for (const auto& [second_is_done, sums] : results) {
    CHECK(second_is_done);
    CHECK(sums == std::vector(300, 3.0f));
  }
}

TEST_CASE("starting and polling never wait for a rank that is late", "[collectives]") {
  const int ranks_per_node = GENERATE(1, 2);
  ThreadGroup group(2, 10s, ranks_per_node);
  std::atomic<bool> others_may_start = false;
  const auto done_early = on_ranks(group, 2, [&](Communicator& comm) {
    Allreduce allreduce(comm, 600);
    while (comm.rank() == 1 && !others_may_start) std::this_thread::yield();
    std::vector<Allreduce::Ticket> tickets;
    // More ranges than there are flags.
    for (size_t i = 0; i < 600; ++i) tickets.push_back(allreduce.start(i, 1));
    allreduce.poll();
    bool any_done = false;
    if (comm.rank() == 0) {
      for (const auto ticket : tickets) any_done = any_done || allreduce.done(ticket);
      others_may_start = true;
    }
    allreduce.finish();
    for (const auto ticket : tickets) any_done = any_done || !allreduce.done(ticket);
    return int(any_done);
  });
  CHECK(done_early == std::vector{0, 0});
}

namespace {

/// A sum that holds up the thread that moves messages until it is released.
struct LongMove {
  std::thread::id owner = std::this_thread::get_id();
  std::atomic<bool> under_way = false, ends = false, ended_in_time = false;

  bool is_over() {
    if (std::this_thread::get_id() == owner) return false;
    under_way = true;
    const auto deadline = std::chrono::steady_clock::now() + 5s;
    while (!ends && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    ended_in_time = ends.load();
    return true;
  }
};

Task move_long(LongMove& move) {
  co_await Until(0, [&move] { return move.is_over(); });
}

}  // namespace

TEST_CASE("polling does not wait for the thread that moves messages", "[collectives]") {
  ThreadGroup group(2, 10s, 1);
  const auto in_time = on_ranks(group, 2, [](Communicator& comm) {
    LongMove move;
    AllreduceOptions options;
    options.by_messages = [&move](Link, size_t, std::span<float>) { return move_long(move); };
    Allreduce allreduce(comm, 10, std::move(options));
    allreduce.start(0, 10);
    while (!move.under_way) std::this_thread::yield();
    allreduce.poll();
    move.ends = true;
    allreduce.finish();
    return move.ended_in_time.load();
  });
  CHECK(in_time == std::vector{true, true});
}

TEST_CASE("urgent ranges end even if there are more ranges than flags", "[collectives]") {
  constexpr size_t kRanges = 700;
  for (uint32_t round = 0; round < 20; ++round) {
    ThreadGroup group(3, 5s, 1);
    const auto sums = on_ranks(group, 3, [round](Communicator& comm) {
      Allreduce allreduce(comm, kRanges);
      std::ranges::fill(allreduce.values(), 1.0f);
      RandomStream random(round, RandomUse::Initialization, uint32_t(comm.rank()));
      for (size_t i = 0; i < kRanges; ++i) {
        allreduce.start(i, 1, int64_t(i / 4));  // later ranges are more urgent
        std::this_thread::sleep_for(std::chrono::microseconds(int(20 * random.uniform())));
      }
      allreduce.finish();
      return std::ranges::count(allreduce.values(), 3.0f);
    });
    REQUIRE(sums == std::vector<long>(3, kRanges));
  }
}

TEST_CASE("urgent ranges in shared memory end although several share a flag", "[collectives]") {
  constexpr size_t kRanges = 600;
  ThreadGroup group(2);
  const auto ranks = on_ranks(
      group, 2, [&](Communicator& comm) { return std::make_unique<Allreduce>(comm, kRanges); });
  for (const auto& rank : ranks) {
    std::ranges::fill(rank->values(), 1.0f);
    for (size_t i = 0; i < kRanges; ++i) rank->start(i, 1, int64_t(i));
  }
  for (size_t i = 0; i < 2 * kRanges; ++i) {
    for (const auto& rank : ranks) rank->poll();
  }
  for (const auto& rank : ranks) CHECK(rank->values().back() == 2.0f);
  for (const auto& rank : ranks) CHECK(std::ranges::count(rank->values(), 2.0f) == kRanges);
}

TEST_CASE("a library's sums begin in the order of their starts, even if some are urgent",
          "[collectives]") {
  ThreadGroup group(2, 10s, 1);
  LibraryRank rank(group.communicator(0));
  Allreduce allreduce(rank, 100,
                      {.rules = parse_rules("allreduce=recursive_doubling:0-4;mpi:5-max", "test")});
  std::ranges::fill(allreduce.values(), 1.0f);
  allreduce.start(0, 1, 9);  // by messages: the other rank never comes
  for (size_t i = 2; i <= 9; ++i) allreduce.start(10 * i, i, int64_t(i));
  CHECK(rank.sums == std::vector<size_t>{2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(allreduce.values()[98] == 2.0f);
  CHECK(allreduce.values()[99] == 1.0f);
}

TEST_CASE("between nodes, messages move while their ranks do something else", "[collectives]") {
  ThreadGroup group(3, 10s, 1);
  const auto results = on_ranks(group, 3, [](Communicator& comm) {
    Allreduce allreduce(comm, 100);
    std::ranges::fill(allreduce.values(), 1.0f);
    const auto ticket = allreduce.start(0, 100);
    while (!allreduce.done(ticket)) std::this_thread::yield();
    return std::vector(allreduce.values().begin(), allreduce.values().end());
  });
  for (const auto& result : results) CHECK(result == std::vector(100, 3.0f));
}

TEST_CASE("on one node, data moves only when a rank polls", "[collectives]") {
  ThreadGroup group(2);
  const auto ranks = on_ranks(
      group, 2, [](Communicator& comm) { return std::make_unique<Allreduce>(comm, size_t(64)); });
  const auto first = ranks[0]->start(0, 64);
  const auto second = ranks[1]->start(0, 64);
  std::this_thread::sleep_for(50ms);  // time for a wrong move
  CHECK_FALSE(ranks[0]->done(first));
  CHECK_FALSE(ranks[1]->done(second));
  ranks[0]->poll();
  CHECK(ranks[0]->done(first));
  CHECK_FALSE(ranks[1]->done(second));
  ranks[1]->poll();
  CHECK(ranks[1]->done(second));
}

TEST_CASE("sums are consumed by the thread that waits for them, not by the one that moves them",
          "[collectives]") {
  constexpr size_t kRanges = 50;
  ThreadGroup group(2, 10s, 1);
  const auto results = on_ranks(group, 2, [](Communicator& comm) {
    const auto owner = std::this_thread::get_id();
    size_t consumed = 0;
    const auto consume = [&](size_t, std::span<const float> sums) {
      if (std::this_thread::get_id() == owner) consumed += sums.size();
    };
    Allreduce allreduce(comm, kRanges, {}, consume);
    for (size_t i = 0; i < kRanges; ++i) allreduce.start(i, 1);
    std::this_thread::sleep_for(20ms);  // time for the other thread to move something
    allreduce.finish();
    return consumed;
  });
  CHECK(results == std::vector(2, kRanges));
}

TEST_CASE("the most urgent ranges are summed before others that were started earlier",
          "[collectives]") {
  constexpr size_t kRanges = 16;
  const bool urgent = GENERATE(true, false);
  std::atomic<int> started = 0;
  const auto orders = on_ranks(2, [&](Communicator& comm) {  // one node: only ranks move
    std::vector<size_t> order;
    const auto consume = [&](size_t first, std::span<const float> sums) {
      if (!sums.empty()) order.push_back(first / 64);
    };
    Allreduce allreduce(comm, kRanges * 64, {}, consume);
    while (started < comm.rank()) std::this_thread::yield();  // rank 1 sums at once
    for (size_t i = 0; i < kRanges; ++i) allreduce.start(i * 64, 64, urgent ? int64_t(i) : 0);
    for (++started; started < 2;) std::this_thread::yield();
    allreduce.finish();
    return order;
  });
  const auto place = [&](size_t range) { return std::ranges::find(orders[0], range); };
  CHECK((place(kRanges - 1) < place(kRanges / 2)) == urgent);
  CHECK((place(kRanges - 2) < place(kRanges / 2)) == urgent);
}

namespace {

/// Sums that end on command, with the number of polls of each.
struct HeldSums {
  std::array<std::atomic<int>, 16> polls{};  // indexed by the first element
  std::array<std::atomic<bool>, 16> end{};
  std::atomic<bool> fail = false;  // makes the first one fail
};

Task hold(HeldSums& sums, size_t first) {
  co_await Until(1, [&sums, first] {
    ++sums.polls[first];
    if (first == 0 && sums.fail) throw Error(Errc::Unavailable, "the first failed");
    return sums.end[first].load();
  });
}

}  // namespace

TEST_CASE("at most four ranges are under way: the most urgent ones and the oldest",
          "[collectives]") {
  ThreadGroup group(2, 10s, 1);
  HeldSums sums;
  AllreduceOptions options;
  options.by_messages = [&](Link, size_t first, std::span<float>) { return hold(sums, first); };
  Allreduce allreduce(group.communicator(0), 16, std::move(options));  // the other rank has died
  for (size_t i = 0; i < 6; ++i) allreduce.start(i, 1);
  CHECK(sums.polls[3] > 0);
  CHECK(sums.polls[4] == 0);
  CHECK(sums.polls[5] == 0);

  // Less urgent ranges stop in the middle, except for the oldest.
  for (size_t i = 6; i < 10; ++i) allreduce.start(i, 1, 1);
  for (size_t i = 6; i < 10; ++i) CHECK(sums.polls[i] > 0);
  std::array<int, 10> before{};
  for (size_t i = 0; i < 10; ++i) before[i] = sums.polls[i];
  allreduce.start(10, 1);
  for (size_t i = 0; i < 10; ++i) CHECK((sums.polls[i] > before[i]) == (i == 0 || i >= 6));

  // Finished ranges make room: 6, 9, the oldest, and one more are left.
  sums.end[7] = true;
  sums.end[8] = true;
  allreduce.start(11, 1);
  CHECK(sums.polls[1] > before[1]);
  CHECK(sums.polls[2] == before[2]);
  CHECK(sums.polls[10] + sums.polls[11] == 0);
}

TEST_CASE("after an error on a rank, its sums stop moving", "[collectives]") {
  ThreadGroup group(2, 10s, 1);
  HeldSums sums;
  AllreduceOptions options;
  options.by_messages = [&](Link, size_t first, std::span<float>) { return hold(sums, first); };
  Allreduce allreduce(group.communicator(0), 16, std::move(options));
  allreduce.start(0, 1);
  allreduce.start(1, 1);
  sums.fail = true;
  CHECK_THROWS_WITH(allreduce.start(2, 1), "the first failed");
  CHECK(sums.polls[2] == 0);
  const int polls = sums.polls[1];
  CHECK_THROWS_WITH(allreduce.finish(), "the first failed");
  CHECK(sums.polls[1] == polls);
}

TEST_CASE("an error while messages are moved is thrown by the next call", "[collectives]") {
  ThreadGroup group(2, 10s, 1);
  const auto errors = on_ranks(group, 2, [](Communicator& comm) -> std::string {
    Allreduce allreduce(comm, 100);
    const size_t count = comm.rank() == 0 ? 100 : 90;
    return test::error_of([&] {
      const auto ticket = allreduce.start(0, count);
      std::this_thread::sleep_for(20ms);
      allreduce.wait(ticket);
    });
  });
  for (const std::string& error : errors) CHECK_THAT(error, Catch::Contains("bytes"));
}

TEST_CASE("a rank that does not take part is named", "[collectives]") {
  const int ranks_per_node = GENERATE(1, 2);
  ThreadGroup group(2, 20ms, ranks_per_node);
  const auto errors = on_ranks(group, 2, [](Communicator& comm) -> std::string {
    Allreduce allreduce(comm, 100);
    if (comm.rank() == 1) return "";
    return test::error_of([&] {
      allreduce.start(0, 100);
      allreduce.finish();
    });
  });
  CHECK_THAT(errors[0], Catch::StartsWith("rank 0: rank 1 did not answer"));
}

TEST_CASE("leaves are added along one tree, on any ranks and by any algorithm", "[collectives]") {
  const size_t num_leaves = GENERATE(1, 2, 3, 5, 6, 8, 16);
  const int num_ranks = GENERATE(1, 2, 3, 4, 7, 8);
  const int ranks_per_node = GENERATE(0, 1, 2, 3, 4);  // one node; messages; two levels
  const RuleSet rules = GENERATE(from_range(kWays));
  constexpr size_t kElements = 37;

  ThreadGroup group(num_ranks, 10s, ranks_per_node);
  const auto results = on_ranks(group, num_ranks, [&](Communicator& comm) {
    Allreduce allreduce(comm, kElements,
                        {.order = sum_in_leaf_order(num_leaves, comm.size()), .rules = rules});
    return reduce_leaves(comm, allreduce, num_leaves, kElements);
  });

  std::vector<float> expected;
  for (size_t k = 0; k < kElements; ++k) {
    std::vector<float> leaves;
    for (size_t leaf = 0; leaf < num_leaves; ++leaf) {
      leaves.push_back(values_of(int(leaf), kElements)[k]);
    }
    expected.push_back(tree_sum(leaves));
  }
  for (const auto& result : results) CHECK(result == expected);
}

TEST_CASE("a large range is summed directly, piece by piece", "[collectives]") {
  constexpr size_t kElements = 300001;  // with 3 ranks, two pieces each
  const auto sums = [&](int ranks_per_node) {
    ThreadGroup group(3, 10s, ranks_per_node);
    return on_ranks(group, 3, [&](Communicator& comm) {
      Allreduce allreduce(comm, kElements, {.order = sum_in_leaf_order(8, 3)});
      return reduce_leaves(comm, allreduce, 8, kElements);
    });
  };
  const auto direct = sums(1);
  CHECK(direct == sums(3));
  CHECK(direct[1] == direct[0]);
}
