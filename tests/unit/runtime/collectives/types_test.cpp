// Tests the all-reduce of every type by every algorithm on threads, against independently computed
// sums.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "runtime/collectives/allreduce.h"
#include "tests/support/as_type.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

using Bytes = std::vector<std::byte>;

Rules always(Algorithm algorithm) { return {{algorithm, 0, SIZE_MAX}}; }

/// Each algorithm for every size, alone and between nodes.
std::vector<RuleSet> all_ways() {
  std::vector<RuleSet> ways = {RuleSet{}};
  for (const Algorithm algorithm : kAlgorithms) {
    ways.push_back({always(algorithm), {}});
    ways.push_back({always(Algorithm::Hierarchical), always(algorithm)});
  }
  return ways;
}

/// Each rank's numbers, and their sum.
struct Example {
  std::vector<Bytes> of_ranks;
  Bytes sum;
};

/// Integers of any size, whose sum wraps around.
template <typename Unsigned>
Example integers(int num_ranks, size_t count) {
  Example example;
  std::vector<Unsigned> sum(count);
  for (int rank = 0; rank < num_ranks; ++rank) {
    RandomStream random(2, RandomUse::Initialization, uint32_t(rank));
    std::vector<Unsigned> numbers(count);
    for (size_t i = 0; i < count; ++i) {
      numbers[i] = Unsigned(uint64_t(random.next()) << 32 | random.next());
      sum[i] += numbers[i];
    }
    const auto bytes = std::as_bytes(std::span(numbers));
    example.of_ranks.emplace_back(bytes.begin(), bytes.end());
  }
  const auto bytes = std::as_bytes(std::span(sum));
  example.sum.assign(bytes.begin(), bytes.end());
  return example;
}

/// Whole numbers whose sums are exact in every type and order; for integer types, integers of any
/// size.
Example exact_example(DataType type, int num_ranks, size_t count) {
  if (type == DataType::Int32) return integers<uint32_t>(num_ranks, count);
  if (type == DataType::Int64) return integers<uint64_t>(num_ranks, count);
  Example example;
  std::vector<float> sum(count);
  for (int rank = 0; rank < num_ranks; ++rank) {
    std::vector<float> numbers(count);
    for (size_t i = 0; i < count; ++i) {
      numbers[i] = float((i + size_t(rank) * 3) % 8) - 3;
      sum[i] += numbers[i];
    }
    example.of_ranks.push_back(as_type(type, numbers));
  }
  example.sum = as_type(type, sum);
  return example;
}

/// The sum that `allreduce` makes of `numbers`, range by range.
Bytes sum_of(Allreduce& allreduce, const Bytes& numbers, const std::vector<size_t>& ranges) {
  const auto all = allreduce.numbers().bytes();
  std::ranges::copy(numbers, all.begin());
  size_t first = 0;
  for (const size_t count : ranges) {
    allreduce.start(first, count);
    first += count;
  }
  allreduce.finish();
  return {all.begin(), all.end()};
}

/// Rounds to the nearest number of `type`, ties to even; computed independently of vector_ops.
double rounded(double value, DataType type) {
  const int digits = type == DataType::Float16 ? 11 : 8;
  const int smallest = type == DataType::Float16 ? -24 : -133;  // exponent of the last digit
  int exponent = 0;
  std::frexp(value, &exponent);
  const double unit = std::ldexp(1, std::max(exponent - digits, smallest));
  return std::nearbyint(value / unit) * unit;
}

/// Numbers in [-1, 1) that `type` can represent.
std::vector<float> halves_of(int rank, size_t count, DataType type) {
  RandomStream random(3, RandomUse::Initialization, uint32_t(rank));
  std::vector<float> numbers(count);
  for (float& number : numbers) number = float(rounded(2 * random.uniform() - 1, type));
  return numbers;
}

std::vector<float> as_floats(const Values& halves) {
  std::vector<float> numbers(halves.count);
  convert(std::span(numbers), halves);
  return numbers;
}

/// The sum of this rank's halves_of() by `options`.
std::vector<float> sum_of_halves(Communicator& comm, size_t count, AllreduceOptions options) {
  const DataType type = options.type;
  Allreduce allreduce(comm, count, std::move(options));
  sum_of(allreduce, as_type(type, halves_of(comm.rank(), count, type)), {count});
  return as_floats(allreduce.numbers());
}

}  // namespace

TEST_CASE("every algorithm that rules can name sums every type", "[collectives]") {
  const int num_ranks = GENERATE(1, 2, 3, 4, 7, 8);
  const int ranks_per_node = GENERATE(0, 1, 2, 3);
  const std::vector<size_t> ranges = {0, 1, 17, 1001, 32};  // odd; many cache lines; whole ones
  constexpr size_t kCount = 0 + 1 + 17 + 1001 + 32;
  const std::vector<RuleSet> ways = all_ways();
  std::vector<Example> examples;
  for (const DataType type : kDataTypes) {
    examples.push_back(exact_example(type, num_ranks, kCount));
  }
  ThreadGroup group(num_ranks, 10s, ranks_per_node);
  const auto problems = on_ranks(group, num_ranks, [&](Communicator& comm) {
    std::string wrong;
    for (size_t i = 0; i < kDataTypes.size(); ++i) {
      const Example& example = examples[i];
      Allreduce allreduce(comm, kCount, {.type = kDataTypes[i]});
      for (const RuleSet& rules : ways) {
        allreduce.follow(rules);
        if (sum_of(allreduce, example.of_ranks[size_t(comm.rank())], ranges) == example.sum) {
          continue;
        }
        wrong += std::string(name(kDataTypes[i])) + " by " + to_text(rules) + "\n";
      }
    }
    return wrong;
  });
  CAPTURE(num_ranks, ranks_per_node);
  CHECK(problems == std::vector<std::string>(size_t(num_ranks)));
}

TEST_CASE("large sums of every type are made piece by piece", "[collectives]") {
  const DataType type = GENERATE(from_range(kDataTypes));
  const int ranks_per_node = GENERATE(1, 2);
  constexpr size_t kCount = 450'001;  // more than one piece of 16-bit floats per rank
  const Example example = exact_example(type, 3, kCount);
  ThreadGroup group(3, 10s, ranks_per_node);
  const auto wrong = on_ranks(group, 3, [&](Communicator& comm) {
    const RuleSet rules = {
        always(ranks_per_node == 2 ? Algorithm::Hierarchical : Algorithm::Direct),
        always(Algorithm::Direct)};
    Allreduce allreduce(comm, kCount, {.type = type, .rules = rules});
    const Bytes sum = sum_of(allreduce, example.of_ranks[size_t(comm.rank())], {kCount});
    return int(sum != example.sum);
  });
  CHECK(wrong == std::vector{0, 0, 0});
}

TEST_CASE("in shared memory and directly, sums of halves are rounded once", "[collectives]") {
  const DataType type = GENERATE(DataType::Float16, DataType::BFloat16);
  const Algorithm algorithm = GENERATE(Algorithm::SharedMemory, Algorithm::Direct);
  const int num_ranks = GENERATE(1, 2, 3, 4, 7, 8);
  constexpr size_t kCount = 1001;
  std::vector<float> sums(kCount), expected;  // in fp32, in the order of ranks
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto numbers = halves_of(rank, kCount, type);
    for (size_t i = 0; i < kCount; ++i) sums[i] += numbers[i];
  }
  for (const float sum : sums) expected.push_back(float(rounded(sum, type)));

  ThreadGroup group(num_ranks, 10s, algorithm == Algorithm::Direct ? 1 : 0);
  const auto results = on_ranks(group, num_ranks, [&](Communicator& comm) {
    return sum_of_halves(comm, kCount, {.type = type, .rules = {always(algorithm), {}}});
  });
  CAPTURE(name(type), name(algorithm), num_ranks);
  for (const auto& result : results) CHECK(result == expected);
}

TEST_CASE("all ranks have the same sum of halves under any rules, near the exact sum",
          "[collectives]") {
  const auto [type, epsilon] = GENERATE(
      table<DataType, double>({{DataType::Float16, 0x1p-11}, {DataType::BFloat16, 0x1p-8}}));
  const RuleSet rules = GENERATE(from_range(all_ways()));
  const int num_ranks = GENERATE(2, 3, 4, 8);
  const int ranks_per_node = GENERATE(0, 1, 2);
  constexpr size_t kCount = 101;
  ThreadGroup group(num_ranks, 10s, ranks_per_node);
  const auto results = on_ranks(group, num_ranks, [&](Communicator& comm) {
    return sum_of_halves(comm, kCount, {.type = type, .rules = rules});
  });
  double error = 0;
  for (size_t i = 0; i < kCount; ++i) {
    double sum = 0;
    for (int rank = 0; rank < num_ranks; ++rank) sum += halves_of(rank, kCount, type)[i];
    error = std::max(error, std::abs(results[0][i] - sum));
  }
  CAPTURE(name(type), to_text(rules), num_ranks, ranks_per_node);
  // P - 1 additions each round a sum below P; one more rounding where fp32 was added.
  CHECK(error <= num_ranks * num_ranks * epsilon);
  CHECK(std::ranges::count(results, results[0]) == num_ranks);
}

TEST_CASE("exact sums of halves do not depend on the number of ranks, nodes or rules",
          "[collectives]") {
  const DataType type = GENERATE(DataType::Float16, DataType::BFloat16);
  constexpr size_t kLeaves = 8, kCount = 37;
  const auto sum = [&](int num_ranks, int ranks_per_node, const RuleSet& rules) {
    ThreadGroup group(num_ranks, 10s, ranks_per_node);
    const auto results = on_ranks(group, num_ranks, [&](Communicator& comm) {
      const SumOrder order = sum_of_leaves(kLeaves, comm.size());
      Allreduce allreduce(comm, kCount, {.type = type, .order = order, .rules = rules});
      const LeafShare share = leaves_as_parts(kLeaves, comm.rank(), comm.size());
      for (size_t i = 0; i < share.count; ++i) {
        const auto leaf = as_type(type, halves_of(int(share.first + i), kCount, type));
        std::ranges::copy(leaf, allreduce.numbers(i).data);
      }
      allreduce.start(0, kCount);
      allreduce.finish();
      return as_floats(allreduce.numbers());
    });
    for (const auto& result : results) CHECK(result == results[0]);
    return results[0];
  };
  std::vector<std::vector<float>> leaves;
  for (size_t leaf = 0; leaf < kLeaves; ++leaf) {
    leaves.push_back(halves_of(int(leaf), kCount, type));
  }
  std::vector<float> expected;
  for (size_t i = 0; i < kCount; ++i) {
    const auto pair = [&](size_t leaf) { return leaves[leaf][i] + leaves[leaf + 1][i]; };
    const float tree = (pair(0) + pair(2)) + (pair(4) + pair(6));
    expected.push_back(float(rounded(tree, type)));
  }
  CHECK(sum(1, 0, {}) == expected);
  for (const RuleSet& rules : all_ways()) {
    for (const int num_ranks : {2, 3, 8}) {
      for (const int ranks_per_node : {0, 1, 2}) {
        CHECK(sum(num_ranks, ranks_per_node, rules) == expected);
      }
    }
  }
}

TEST_CASE("no two ranks of a node write to one cache line", "[collectives]") {
  const DataType type = GENERATE(from_range(kDataTypes));
  const int shares = GENERATE(1, 2, 3, 7);
  const size_t count = GENERATE(0, 1, 33, 1000);
  const auto wrong = on_ranks(2, [&](Communicator& comm) {
    const NodeMemory memory(comm, count, type, std::vector<size_t>{1, 2});
    int problems = 0;
    for (const Values& part : memory.parts()) {
      problems += reinterpret_cast<uintptr_t>(part.data) % 64 != 0;
    }
    const Range all = {0, count, 1};
    size_t next = 0;
    for (int i = 0; i < shares; ++i) {
      const Range share = memory.share(all, i, shares);
      problems += share.first != next;
      problems += share.first != count && share.first * size_of(type) % 64 != 0;
      next = share.first + share.count;
    }
    return problems + int(next != count) + int(memory.parts().size() != 3);
  });
  CHECK(wrong == std::vector{0, 0});
}

TEST_CASE("rules count bytes of the type", "[collectives]") {
  // Along the tree, 1 + 2^-11 is rounded to 1 twice; added directly, the sum 1 + 2^-10 is
  // representable in fp16.
  const auto [count, expected] = GENERATE(table<size_t, float>({{100, 1.0f}, {101, 1 + 0x1p-10f}}));
  ThreadGroup group(3, 10s, 1);
  const auto results = on_ranks(group, 3, [count = count](Communicator& comm) {
    Allreduce allreduce(comm, count,
                        {.type = DataType::Float16,
                         .rules = parse_rules("allreduce=tree:0-200;direct:201-max", "test")});
    const std::vector<float> numbers(count, comm.rank() == 0 ? 1.0f : 0x1p-11f);
    sum_of(allreduce, as_type(DataType::Float16, numbers), {count});
    return as_floats(allreduce.numbers());
  });
  for (const auto& result : results) CHECK(result == std::vector(count, expected));
}
