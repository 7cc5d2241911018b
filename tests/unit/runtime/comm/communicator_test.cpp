#include <cstdint>

#include "base/error.h"
#include "runtime/comm/descriptor_memory.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/on_ranks.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <typename T>
std::span<std::byte> writable_bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

TEST_CASE("a message arrives at the next rank, and at the sender itself", "[comm]") {
  const int num_ranks = GENERATE(1, 2, 3, 7);
  const auto received = on_ranks(num_ranks, [&](Communicator& comm) {
    const int mine = 100 + comm.rank();
    int other = -1;
    comm.send_receive(bytes_of(mine), (comm.rank() + 1) % num_ranks, writable_bytes_of(other),
                      (comm.rank() + num_ranks - 1) % num_ranks);
    return other;
  });
  for (int rank = 0; rank < num_ranks; ++rank) {
    CHECK(received[rank] == 100 + (rank + num_ranks - 1) % num_ranks);
  }
}

TEST_CASE("messages between two ranks keep their order and may be empty", "[comm]") {
  const auto received = on_ranks(2, [](Communicator& comm) {
    std::vector<int> values(2);
    if (comm.rank() == 0) {
      comm.send(bytes_of(1), 1);
      comm.send({}, 1);
      comm.send(bytes_of(2), 1);
    } else {
      comm.receive(writable_bytes_of(values[0]), 0);
      comm.receive({}, 0);
      comm.receive(writable_bytes_of(values[1]), 0);
    }
    return values;
  });
  CHECK(received[1] == std::vector{1, 2});
}

TEST_CASE("a broadcast reaches every rank from any root", "[comm]") {
  const int num_ranks = GENERATE(1, 2, 3, 4, 7);
  const int root = GENERATE_COPY(range(0, num_ranks));
  const auto values = on_ranks(num_ranks, [&](Communicator& comm) {
    int value = comm.rank() == root ? 42 : -1;
    comm.broadcast(writable_bytes_of(value), root);
    return value;
  });
  CHECK(values == std::vector(num_ranks, 42));
}

TEST_CASE("no rank leaves a barrier before all have come", "[comm]") {
  const int num_ranks = GENERATE(1, 2, 3, 7);
  std::atomic<int> arrived{0};
  const auto seen = on_ranks(num_ranks, [&](Communicator& comm) {
    ++arrived;
    comm.barrier();
    return arrived.load();
  });
  CHECK(seen == std::vector(num_ranks, num_ranks));
}

TEST_CASE("ranks of a node see each other's shared memory, aligned and zeroed", "[comm]") {
  ThreadGroup group(5, 10s, 2);  // nodes {0, 1}, {2, 3}, {4}
  const auto sums = on_ranks(group, 5, [&](Communicator& comm) {
    comm.allocate_shared(0);
    const auto parts = comm.allocate_shared(sizeof(int));
    int sum = 0;
    for (std::byte* part : parts) {
      if (reinterpret_cast<uintptr_t>(part) % 64 != 0) return -1;
      sum += *reinterpret_cast<int*>(part);
    }
    comm.barrier();
    *reinterpret_cast<int*>(parts[comm.node_rank()]) = 10 + comm.rank();
    comm.barrier();
    for (std::byte* part : parts) sum += *reinterpret_cast<int*>(part);
    return sum;
  });
  CHECK(sums == std::vector{21, 21, 25, 25, 14});
}

TEST_CASE("ranks of a node gather one value per rank, in order", "[comm]") {
  const int ranks = GENERATE(1, 2, 3, 5, 8), per_node = GENERATE(1, 3, 8);
  ThreadGroup group(ranks, 20s, per_node);
  const auto gathered = on_ranks(
      group, ranks, [](Communicator& comm) { return gather_in_node(comm, 100 + comm.rank()); });
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int> expected;
    for (int other = rank / per_node * per_node; other < ranks && int(expected.size()) < per_node;
         ++other) {
      expected.push_back(100 + other);
    }
    CHECK(gathered[size_t(rank)] == expected);
  }
}

TEST_CASE("a rank that is missing is named after the timeout", "[comm]") {
  ThreadGroup group(2, 20ms);
  const auto errors = on_ranks(group, 2, [](Communicator& comm) {
    return comm.rank() == 1 ? "" : error_of([&] { comm.barrier(); });
  });
  CHECK_THAT(errors[0], Catch::StartsWith("rank 0: rank 1 did not answer within 0.02 s"));
}

TEST_CASE("shared memory names the rank that does not take part", "[comm]") {
  ThreadGroup group(3, 20ms);
  const auto errors = on_ranks(group, 3, [](Communicator& comm) {
    return comm.rank() == 1 ? "" : error_of([&] { comm.allocate_shared(8); });
  });
  CHECK_THAT(errors[0], Catch::StartsWith("rank 0: rank 1 did not answer"));
  CHECK_THAT(errors[2], Catch::StartsWith("rank 2: rank 1 did not answer"));
}

TEST_CASE("a message of another size than expected names both ranks and sizes", "[comm]") {
  const auto errors = on_ranks(2, [](Communicator& comm) {
    int64_t value = 0;
    return error_of([&] {
      if (comm.rank() == 0) comm.send(bytes_of(int32_t(1)), 1);
      if (comm.rank() == 1) comm.receive(writable_bytes_of(value), 0);
    });
  });
  CHECK_THAT(errors[1], Catch::StartsWith("rank 1 expected 8 bytes from rank 0 and got 4;"));
}
