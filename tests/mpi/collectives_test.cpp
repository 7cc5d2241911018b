// Tests every collective, including MPI's own sum, between processes on one or several nodes. Run
// like mpi_test.cpp; tests/slurm/collectives_test.py runs these cases across nodes.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "runtime/collectives/all_gather.h"
#include "runtime/collectives/all_to_all.h"
#include "runtime/collectives/allreduce.h"
#include "runtime/collectives/broadcast.h"
#include "runtime/collectives/message_allreduce.h"
#include "runtime/collectives/reduce_scatter.h"
#include "runtime/collectives/vector_ops.h"
#include "runtime/comm/mpi_communicator.h"
#include "tests/mpi/problems.h"
#include "tests/support/as_type.h"
#include "tests/support/catch.h"

using namespace dlflow::runtime;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

constexpr auto kTimeout = 60s;
const std::vector<size_t> kCounts = {0, 1, 2, 17, 1000, 140'001};  // the last: several messages

/// Small whole numbers: their sums are exact in every type.
std::vector<float> numbers_of(int rank, size_t count) {
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = float((i + size_t(rank) * 3) % 8);
  return numbers;
}

/// Integers beyond the range of fp32 for types that hold them, otherwise numbers_of().
std::vector<std::byte> numbers_of(int rank, size_t count, DataType type) {
  std::vector<std::byte> bytes = as_type(type, numbers_of(rank, count));
  const auto enlarge = [&]<typename Integer>(Integer factor) {
    const std::span integers(reinterpret_cast<Integer*>(bytes.data()), count);
    for (Integer& integer : integers) integer = integer * factor + rank;
  };
  if (type == DataType::Int32) enlarge(int32_t{10'000'019});
  if (type == DataType::Int64) enlarge(int64_t{1'000'000'000'000'037});
  return bytes;
}

template <typename Number>
std::vector<std::byte> whole_sum(int ranks, size_t count, DataType type) {
  std::vector<Number> sum(count);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<std::byte> numbers = numbers_of(rank, count, type);
    for (size_t i = 0; i < count; ++i) sum[i] += reinterpret_cast<const Number*>(numbers.data())[i];
  }
  const auto bytes = std::as_bytes(std::span(sum));
  return {bytes.begin(), bytes.end()};
}

std::vector<float> exact_sum(int ranks, size_t count) {
  std::vector<float> sum(count);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> numbers = numbers_of(rank, count);
    for (size_t i = 0; i < count; ++i) sum[i] += numbers[i];
  }
  return sum;
}

/// The sum of all ranks' numbers_of().
std::vector<std::byte> exact_sum(int ranks, size_t count, DataType type) {
  if (type == DataType::Int32) return whole_sum<int32_t>(ranks, count, type);
  if (type == DataType::Int64) return whole_sum<int64_t>(ranks, count, type);
  return as_type(type, exact_sum(ranks, count));
}

/// Returns "ring of 17 fp16" if `sum` differs from `expected`.
std::string difference(const std::vector<std::byte>& sum, const std::vector<std::byte>& expected,
                       Algorithm algorithm, DataType type) {
  if (sum == expected) return "";
  return std::string(name(algorithm)) + " of " + std::to_string(sum.size() / size_of(type)) +
         " of type " + std::string(name(type)) + " ";
}

std::vector<float> random_values(int rank, size_t count) {
  dlflow::RandomStream random(1, dlflow::RandomUse::Initialization, uint32_t(rank));
  std::vector<float> values(count);
  for (float& value : values) value = 2 * random.uniform() - 1;
  return values;
}

/// The sum of all ranks' random_values by `options`.
std::vector<float> sum_by(Communicator& comm, size_t count, AllreduceOptions options) {
  Allreduce allreduce(comm, count, std::move(options));
  std::ranges::copy(random_values(comm.rank(), count), allreduce.values().begin());
  allreduce.start(count / 2, count - count / 2);
  allreduce.start(0, count / 2);
  allreduce.finish();
  return {allreduce.values().begin(), allreduce.values().end()};
}

/// "" if all ranks have the same bits, at most `tolerance` from the sum.
std::string wrong_bits(Communicator& comm, const std::vector<float>& sums, float tolerance) {
  std::vector<double> expected(sums.size());
  for (int rank = 0; rank < comm.size(); ++rank) {
    const std::vector<float> values = random_values(rank, sums.size());
    for (size_t i = 0; i < sums.size(); ++i) expected[i] += values[i];
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!(std::abs(sums[i] - expected[i]) <= tolerance)) return "far from the sum ";
  }
  std::vector<float> first = sums;
  comm.broadcast(std::as_writable_bytes(std::span(first)), 0);
  return first == sums ? "" : "other bits than rank 0 ";
}

RuleSet always(Algorithm algorithm) { return {{{algorithm, 0, SIZE_MAX}}, {}}; }
RuleSet always_between(Algorithm algorithm) {
  return {{{Algorithm::Hierarchical, 0, SIZE_MAX}}, {{algorithm, 0, SIZE_MAX}}};
}

}  // namespace

TEST_CASE("every all-reduce gives the sum, in every type", "[across]") {
  MpiCommunicator comm(kTimeout);
  const size_t count = GENERATE(from_range(kCounts));
  std::string problem;
  for (const DataType type : kDataTypes) {
    const auto mine = numbers_of(comm.rank(), count, type);
    const auto expected = exact_sum(comm.size(), count, type);
    for (const Algorithm algorithm : kMessageAlgorithms) {
      auto bytes = mine;
      run(comm, message_allreduce(algorithm, Link(comm), {bytes.data(), count, type}));
      problem += difference(bytes, expected, algorithm, type);
    }
    if (!comm.can_sum(type)) continue;
    auto bytes = mine;
    run(comm, mpi_allreduce(comm, {bytes.data(), count, type}));
    problem += difference(bytes, expected, Algorithm::Mpi, type);
  }
  CHECK(problems(comm, problem) == "");
}

TEST_CASE("sums of every type are right under any rules", "[across]") {
  MpiCommunicator comm(kTimeout);
  const size_t count = GENERATE(from_range(kCounts));
  std::string problem;
  for (const DataType type : kDataTypes) {
    const auto mine = numbers_of(comm.rank(), count, type);
    const auto expected = exact_sum(comm.size(), count, type);
    Allreduce allreduce(comm, count, {.type = type});
    const std::span<std::byte> bytes = allreduce.numbers().bytes();
    for (const Algorithm algorithm : kAlgorithms) {
      for (const RuleSet& rules : {always(algorithm), always_between(algorithm)}) {
        allreduce.follow(rules);
        std::ranges::copy(mine, bytes.begin());
        allreduce.start(count / 2, count - count / 2);
        allreduce.start(0, count / 2);
        allreduce.finish();
        if (std::ranges::equal(bytes, expected)) continue;
        problem += std::string(name(type)) + " by " + to_text(rules) + " ";
      }
    }
  }
  CHECK(problems(comm, problem) == "");
}

TEST_CASE("gradients have the same sum on all ranks under any rules", "[across]") {
  MpiCommunicator comm(kTimeout);
  const float tolerance = float(comm.size() * comm.size()) * 0x1p-22f;
  const DataType wire = GENERATE(DataType::Float32, DataType::Float16, DataType::BFloat16);
  const size_t count = GENERATE(1, 17, 1000, 70'001);
  const float rounding = wire == DataType::Float32 ? 0 : float(2 * comm.size()) * 0x1p-8f;
  std::string problem;
  for (const Algorithm algorithm : kAlgorithms) {
    for (const RuleSet& rules : {always(algorithm), always_between(algorithm)}) {
      const auto sums = sum_by(comm, count, {.wire = wire, .rules = rules});
      const std::string wrong = wrong_bits(comm, sums, tolerance + rounding);
      if (!wrong.empty()) problem += to_text(rules) + ": " + wrong;
    }
  }
  CHECK(problems(comm, problem) == "");
}

TEST_CASE("exact sums have the bits of the direct algorithm under any rules", "[across]") {
  MpiCommunicator comm(kTimeout);
  const size_t count = GENERATE(1, 17, 1000, 70'001);
  const SumOrder order = sum_in_leaf_order(size_t(comm.size()), comm.size());
  const auto expected = sum_by(comm, count, {.order = order, .rules = always(Algorithm::Direct)});
  std::string problem;
  for (const Algorithm algorithm : kAlgorithms) {
    for (const RuleSet& rules : {always(algorithm), always_between(algorithm)}) {
      const auto sums = sum_by(comm, count, {.order = order, .rules = rules});
      if (sums != expected) problem += to_text(rules) + " ";
    }
  }
  CHECK(problems(comm, problem) == "");
}

TEST_CASE("reduce-scatter, all-gather and broadcast give the right values", "[across]") {
  MpiCommunicator comm(kTimeout);
  const size_t count = GENERATE(from_range(kCounts));
  const std::vector<float> sum = exact_sum(comm.size(), count);
  std::string problem;
  for (const DataType type : kDataTypes) {
    const std::string of_type = " of type " + std::string(name(type)) + " ";
    std::vector<std::byte> values = as_type(type, numbers_of(comm.rank(), count));
    std::vector<std::byte> expected = as_type(type, sum);
    const Values all(values.data(), count, type), sums(expected.data(), count, type);
    run(comm, reduce_scatter(Link(comm), all));
    if (!std::ranges::equal(all.share(comm.rank(), comm.size()).bytes(),
                            sums.share(comm.rank(), comm.size()).bytes())) {
      problem += "wrong share" + of_type;
    }
    run(comm, all_gather(Link(comm), all));
    if (values != expected) problem += "wrong gathered shares" + of_type;
    const int root = comm.size() - 1;
    std::ranges::fill(values, std::byte(comm.rank()));
    run(comm, broadcast(Link(comm), values, root));
    if (values != std::vector(values.size(), std::byte(root))) problem += "wrong copy" + of_type;
  }
  comm.barrier();
  CHECK(problems(comm, problem) == "");
}

TEST_CASE("all-to-all delivers uneven blocks", "[across]") {
  MpiCommunicator comm(kTimeout);
  const int factor = GENERATE(0, 1, 1000);
  const auto bytes_from_to = [&](int from, int to) { return size_t((from + 2 * to) % 5 * factor); };
  std::vector<size_t> sent, received;
  std::vector<std::byte> out, expected;
  for (int peer = 0; peer < comm.size(); ++peer) {
    sent.push_back(bytes_from_to(comm.rank(), peer));
    received.push_back(bytes_from_to(peer, comm.rank()));
    size_t place = 0;  // of the block in the peer's data
    for (int other = 0; other < comm.rank(); ++other) place += bytes_from_to(peer, other);
    for (size_t i = place; i < place + received.back(); ++i) {
      expected.push_back(std::byte(i * 7 + size_t(peer)));
    }
  }
  out.resize(std::reduce(sent.begin(), sent.end()));
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::byte(i * 7 + size_t(comm.rank()));
  std::vector<std::byte> in(expected.size());
  run(comm, all_to_all(Link(comm), out, sent, in, received));
  CHECK(problems(comm, in == expected ? "" : "other bytes") == "");
}

TEST_CASE("more than 2^31 bytes are summed and copied", "[.slow]") {
  MpiCommunicator comm(kTimeout);
  constexpr size_t kCount = (size_t(1) << 30) + 3;  // elements of two bytes
  std::vector<uint16_t> ones(kCount, 0x3f80);       // 1 as bf16
  const Values values(reinterpret_cast<std::byte*>(ones.data()), kCount, DataType::BFloat16);
  run(comm, message_allreduce(Algorithm::Ring, Link(comm), values));
  const float sum = float(comm.size());
  uint16_t expected = 0;
  convert({reinterpret_cast<std::byte*>(&expected), 1, DataType::BFloat16},
          std::span(const_cast<float*>(&sum), 1));
  const auto wrong = kCount - size_t(std::ranges::count(ones, expected));
  run(comm, broadcast(Link(comm), values.bytes(), 0));
  CHECK(problems(comm, wrong == 0 ? "" : std::to_string(wrong) + " wrong sums") == "");
}
