// Tests every collective on threads against independently computed sums.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "runtime/collectives/all_gather.h"
#include "runtime/collectives/all_to_all.h"
#include "runtime/collectives/broadcast.h"
#include "runtime/collectives/message_allreduce.h"
#include "runtime/collectives/reduce_scatter.h"
#include "runtime/collectives/vector_ops.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;

namespace {

/// Small whole numbers: their sums over 16 ranks are exact in every type and every order.
int number_of(int rank, size_t i) { return int((i + size_t(rank) * 3) % 8); }

int sum_of(int num_ranks, size_t i) {
  int sum = 0;
  for (int rank = 0; rank < num_ranks; ++rank) sum += number_of(rank, i);
  return sum;
}

/// Whole numbers in memory, as any type.
class Numbers {
 public:
  Numbers(DataType type, size_t count) : bytes_(count * size_of(type)), type_(type) {}

  Values values() { return {bytes_.data(), bytes_.size() / size_of(type_), type_}; }

  void set(size_t i, int number) {
    float real = float(number);
    convert(values().subrange(i, 1), std::span(&real, 1));
  }
  int get(size_t i) {
    float real = 0;
    convert(std::span(&real, 1), values().subrange(i, 1));
    return int(real);
  }

 private:
  std::vector<std::byte> bytes_;
  DataType type_;
};

Numbers numbers_of(int rank, DataType type, size_t count) {
  Numbers numbers(type, count);
  for (size_t i = 0; i < count; ++i) numbers.set(i, number_of(rank, i));
  return numbers;
}

/// The number of wrong sums in `numbers` from `first` on.
int wrong_sums(Numbers& numbers, int num_ranks, size_t first, size_t count) {
  int wrong = 0;
  for (size_t i = first; i < first + count; ++i) wrong += numbers.get(i) != sum_of(num_ranks, i);
  return wrong;
}

std::vector<std::byte> bytes_from(int rank, size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = std::byte(i * 7 + size_t(rank) * 31);
  return bytes;
}

}  // namespace

TEST_CASE("every algorithm is tested here or in a program of its own", "[collectives]") {
  const std::set<Algorithm> others = {Algorithm::SharedMemory, Algorithm::Hierarchical,
                                      Algorithm::Direct, Algorithm::Mpi};
  for (const Algorithm algorithm : kAlgorithms) {
    INFO(name(algorithm));
    const bool tested_here = std::ranges::count(kMessageAlgorithms, algorithm) == 1;
    CHECK(tested_here != others.contains(algorithm));
  }
}

TEST_CASE("every all-reduce over messages leaves the sum on every rank, in every type",
          "[collectives]") {
  const Algorithm algorithm = GENERATE(from_range(kMessageAlgorithms));
  const int num_ranks = GENERATE(range(1, 17));
  CAPTURE(name(algorithm), num_ranks);
  const auto wrong = on_ranks(num_ranks, [&](Communicator& comm) {
    int all = 0;
    for (const DataType type : kDataTypes) {
      for (const size_t count : {0, 1, 2, 15, 1000}) {
        Numbers numbers = numbers_of(comm.rank(), type, count);
        run(comm, message_allreduce(algorithm, Link(comm), numbers.values()));
        all += wrong_sums(numbers, num_ranks, 0, count);
      }
    }
    return all;
  });
  CHECK(wrong == std::vector(size_t(num_ranks), 0));
}

TEST_CASE("an all-reduce may send several messages per round", "[collectives]") {
  const Algorithm algorithm = GENERATE(from_range(kMessageAlgorithms));
  const int num_ranks = GENERATE(2, 3);
  constexpr size_t kCount = 700'001;  // more than one message of the ring each
  const auto wrong = on_ranks(num_ranks, [&](Communicator& comm) {
    Numbers numbers = numbers_of(comm.rank(), DataType::Float32, kCount);
    run(comm, message_allreduce(algorithm, Link(comm), numbers.values()));
    return wrong_sums(numbers, num_ranks, 0, kCount);
  });
  CHECK(wrong == std::vector(size_t(num_ranks), 0));
}

TEST_CASE("concurrent collectives do not mix, in whatever order they are polled", "[collectives]") {
  const int num_ranks = GENERATE(2, 5);
  const auto wrong = on_ranks(num_ranks, [&](Communicator& comm) {
    std::vector<Numbers> numbers;
    std::vector<Task> tasks;
    for (int i = 0; i < 8; ++i) {
      numbers.push_back(numbers_of(comm.rank(), DataType::Int32, 100));
      tasks.push_back(message_allreduce(kMessageAlgorithms[size_t(i) % kMessageAlgorithms.size()],
                                        Link(comm), numbers.back().values()));
    }
    // Each rank begins with a different one.
    for (int i = 0; i < 8; ++i) (void)tasks[size_t(i + comm.rank()) % 8].poll();
    int all = 0;
    for (int i = 7; i >= 0; --i) {
      while (tasks[size_t(i)].poll() != Progress::Done) {
        for (Task& other : tasks) (void)other.poll();
      }
      all += wrong_sums(numbers[size_t(i)], num_ranks, 0, 100);
    }
    return all;
  });
  CHECK(wrong == std::vector(size_t(num_ranks), 0));
}

TEST_CASE("recursive doubling, Rabenseifner and the tree add along one binary tree",
          "[collectives]") {
  const auto sums = [](Algorithm algorithm, int num_ranks) {
    return on_ranks(num_ranks, [&](Communicator& comm) {
      RandomStream random(1, RandomUse::Initialization, uint32_t(comm.rank()));
      std::vector<float> values(33);
      for (float& value : values) value = random.uniform() - 0.5f;
      run(comm, message_allreduce(algorithm, Link(comm), std::span(values)));
      return values;
    });
  };
  const int num_ranks = GENERATE(2, 4, 8, 16);
  const auto expected = sums(Algorithm::Tree, num_ranks);
  CHECK(sums(Algorithm::RecursiveDoubling, num_ranks) == expected);
  CHECK(sums(Algorithm::Rabenseifner, num_ranks) == expected);
}

TEST_CASE("reduce-scatter leaves each rank its share of the sum", "[collectives]") {
  const int num_ranks = GENERATE(1, 2, 3, 7, 16);
  const DataType type = GENERATE(from_range(kDataTypes));
  const size_t count = GENERATE(0, 1, 5, 1000);
  const auto wrong = on_ranks(num_ranks, [&](Communicator& comm) {
    Numbers numbers = numbers_of(comm.rank(), type, count);
    run(comm, reduce_scatter(Link(comm), numbers.values()));
    const size_t first = count * size_t(comm.rank()) / size_t(num_ranks);
    const size_t end = count * size_t(comm.rank() + 1) / size_t(num_ranks);
    return wrong_sums(numbers, num_ranks, first, end - first);
  });
  CHECK(wrong == std::vector(size_t(num_ranks), 0));
}

TEST_CASE("all-gather joins the blocks of all ranks, of any sizes", "[collectives]") {
  const int num_ranks = GENERATE(1, 2, 3, 7, 16);
  std::vector<size_t> sizes;
  std::vector<std::byte> expected;
  for (int rank = 0; rank < num_ranks; ++rank) {
    sizes.push_back(size_t(rank * 5 % 4));  // some blocks are empty
    const auto block = bytes_from(rank, sizes.back());
    expected.insert(expected.end(), block.begin(), block.end());
  }
  const auto gathered = on_ranks(num_ranks, [&](Communicator& comm) {
    std::vector<std::byte> bytes(expected.size());
    size_t first = 0;
    for (int rank = 0; rank < comm.rank(); ++rank) first += sizes[size_t(rank)];
    std::ranges::copy(bytes_from(comm.rank(), sizes[size_t(comm.rank())]),
                      bytes.begin() + long(first));
    run(comm, all_gather(Link(comm), bytes, sizes));
    return bytes;
  });
  for (const auto& bytes : gathered) CHECK(bytes == expected);
}

TEST_CASE("a broadcast reaches every rank from any root, even if ranks only poll",
          "[collectives]") {
  const int num_ranks = GENERATE(1, 2, 3, 7, 16);
  const int root = GENERATE_COPY(0, num_ranks - 1, num_ranks / 2);
  const auto copies = on_ranks(num_ranks, [&](Communicator& comm) {
    auto bytes = bytes_from(comm.rank(), 100);
    run(comm, broadcast(Link(comm), bytes, root));
    return bytes;
  });
  for (const auto& bytes : copies) CHECK(bytes == bytes_from(root, 100));
}

TEST_CASE("all-to-all gives every rank its block, of any size", "[collectives]") {
  const int num_ranks = GENERATE(1, 2, 3, 7, 16);
  // Rank i sends rank j a block of (i + 2j) % 5 bytes that begin with 31 i.
  const auto size = [](int from, int to) { return size_t((from + 2 * to) % 5); };
  const auto wrong = on_ranks(num_ranks, [&](Communicator& comm) {
    std::vector<size_t> sent_sizes, received_sizes;
    std::vector<std::byte> sent, expected;
    const auto append = [](std::vector<std::byte>& to, const std::vector<std::byte>& block) {
      to.insert(to.end(), block.begin(), block.end());
    };
    for (int rank = 0; rank < num_ranks; ++rank) {
      sent_sizes.push_back(size(comm.rank(), rank));
      received_sizes.push_back(size(rank, comm.rank()));
      append(sent, bytes_from(comm.rank() + 100 * rank, sent_sizes.back()));
      append(expected, bytes_from(rank + 100 * comm.rank(), received_sizes.back()));
    }
    std::vector<std::byte> received(expected.size());
    run(comm, all_to_all(Link(comm), sent, sent_sizes, received, received_sizes));
    return int(received != expected);
  });
  CHECK(wrong == std::vector(size_t(num_ranks), 0));
}

TEST_CASE("whole numbers are converted to integers and back", "[collectives]") {
  std::vector<float> numbers = {0, 1, -1, 8388608, -16777216};
  std::vector<int32_t> narrow(numbers.size());
  std::vector<int64_t> wide(numbers.size());
  convert(std::span(narrow), std::span(numbers));
  convert(std::span(wide), std::span(numbers));
  CHECK(narrow == std::vector<int32_t>{0, 1, -1, 8388608, -16777216});
  CHECK(wide == std::vector<int64_t>{0, 1, -1, 8388608, -16777216});
  std::vector<float> back(numbers.size());
  convert(std::span(back), std::span(wide));
  CHECK(back == numbers);
}

TEST_CASE("halves of floats are added in fp32 and rounded once, ties to even", "[collectives]") {
  const DataType type = GENERATE(DataType::Float16, DataType::BFloat16);
  const float step = type == DataType::Float16 ? 0x1p-10f : 0x1p-7f;  // above 1
  const auto rounded = [&](float value) {
    std::byte bytes[2];
    const Values half(bytes, 1, type);
    convert(half, std::span(&value, 1));
    convert(std::span(&value, 1), half);
    return value;
  };
  CHECK(rounded(1 + step) == 1 + step);
  CHECK(rounded(1 + step / 2) == 1);
  CHECK(rounded(1 + step * 3 / 2) == 1 + 2 * step);
  CHECK(rounded(-1 - step * 0.6f) == -1 - step);
  CHECK(std::isnan(rounded(NAN)));
  CHECK(rounded(INFINITY) == INFINITY);
}
