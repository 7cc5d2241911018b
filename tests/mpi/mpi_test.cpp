// Run by mpirun with any number of processes: every rank runs the same cases in step, a case fails
// on all ranks or none, and rank 0 reports (main.cpp).
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "runtime/collectives/allreduce.h"
#include "runtime/collectives/message_allreduce.h"
#include "runtime/comm/mpi_communicator.h"
#include "runtime/reduce/reducer.h"
#include "tests/mpi/problems.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

constexpr auto kTimeout = 30s;
bool library_has_threads = true;

std::vector<float> values_of(int rank, size_t num_elements) {
  RandomStream random(1, RandomUse::Initialization, uint32_t(rank));
  std::vector<float> values(num_elements);
  for (float& value : values) value = 2 * random.uniform() - 1;
  return values;
}

/// Describes how `sums` differs from the sum of all ranks' values_of; empty if it does not.
std::string wrong_sum(Communicator& comm, const std::vector<float>& sums) {
  std::vector<double> expected(sums.size());
  for (int rank = 0; rank < comm.size(); ++rank) {
    const auto values = values_of(rank, sums.size());
    for (size_t i = 0; i < sums.size(); ++i) expected[i] += values[i];
  }
  // Adding P values in [-1, 1) rounds P-1 times a sum below P.
  const double tolerance = comm.size() * comm.size() * 0x1p-24;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!(std::abs(sums[i] - expected[i]) <= tolerance)) {
      return "element " + std::to_string(i) + " is " + std::to_string(sums[i]) + ", not " +
             std::to_string(expected[i]);
    }
  }
  std::vector<float> first = sums;
  comm.broadcast(std::as_writable_bytes(std::span(first)), 0);
  return first == sums ? "" : "other bits than rank 0";
}

}  // namespace

/// Replaces the library's function through MPI's profiling interface, to simulate a library without
/// threads. MPI_THREAD_FUNNELED is 1 in every mpi.h.
extern "C" int MPI_Query_thread(int* provided) {
  using Function = int(int*);
  const auto own = reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, "PMPI_Query_thread"));
  const int status = own(provided);
  if (!library_has_threads) *provided = 1;
  return status;
}

TEST_CASE("Open MPI yields during a blocking call, and has its old setting afterwards") {
  const auto yields =
      reinterpret_cast<bool (*)(bool)>(::dlsym(RTLD_DEFAULT, "opal_progress_set_yield_when_idle"));
  if (!yields) return;  // another library
  const bool before = GENERATE(false, true), at_start = yields(before);
  const auto yields_now = [&] {
    const bool now = yields(false);
    yields(now);
    return now;
  };
  {
    const PoliteMpi polite;
    CHECK(yields_now());
    { const PoliteMpi inner; }
    CHECK(yields_now());
  }
  CHECK(yields_now() == before);
  MpiCommunicator(kTimeout).allocate_shared(100);
  CHECK(yields_now() == before);
  yields(at_start);
}

TEST_CASE("an MPI library without support for threads is refused") {
  library_has_threads = false;
  std::string message;
  try {
    const MpiCommunicator comm(kTimeout);
  } catch (const Error& error) {
    message = error.what();
  }
  library_has_threads = true;
  MpiCommunicator comm(kTimeout);
  const bool refused = message.find("by one thread only") != std::string::npos;
  CHECK(problems(comm, refused ? "" : "got: " + message) == "");
}

TEST_CASE("a message arrives at the next rank, and at the sender itself") {
  MpiCommunicator comm(kTimeout);
  const int mine = 100 + comm.rank();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  int other = -1;
  comm.send_receive(std::as_bytes(std::span(&mine, 1)), (comm.rank() + 1) % comm.size(),
                    std::as_writable_bytes(std::span(&other, 1)), previous);
  CHECK(problems(comm, other == 100 + previous ? "" : "got " + std::to_string(other)) == "");
}

TEST_CASE("a broadcast reaches every rank from any root") {
  MpiCommunicator comm(kTimeout);
  std::string problem;
  for (int root = 0; root < comm.size(); ++root) {
    int value = comm.rank() == root ? 42 : -1;
    comm.broadcast(std::as_writable_bytes(std::span(&value, 1)), root);
    if (value != 42) problem += "nothing from " + std::to_string(root) + " ";
  }
  CHECK(problems(comm, problem) == "");
}

TEST_CASE("ranks of a node see each other's shared memory, aligned and zeroed") {
  MpiCommunicator comm(kTimeout);
  REQUIRE(comm.node_size() == comm.size());
  std::string problem;
  for (const size_t bytes : {sizeof(int), size_t(100), size_t(1) << 20}) {
    const auto parts = comm.allocate_shared(bytes);
    for (std::byte* part : parts) {
      if (reinterpret_cast<uintptr_t>(part) % 64 != 0) problem += "not aligned ";
      if (std::any_of(part, part + bytes, [](std::byte b) { return b != std::byte{0}; })) {
        problem += "not zero ";
      }
    }
    comm.barrier();
    *reinterpret_cast<int*>(parts[comm.rank()]) = comm.rank() + 1;
    comm.barrier();
    for (int rank = 0; rank < comm.size(); ++rank) {
      if (*reinterpret_cast<int*>(parts[rank]) != rank + 1) problem += "does not see a peer ";
    }
  }
  CHECK(problems(comm, problem) == "");
}

TEST_CASE("the ring leaves the sum on every rank, with the same bits") {
  MpiCommunicator comm(kTimeout);
  const size_t num_elements = GENERATE(0, 1, 17, 1000, 70000, 300001);
  auto values = values_of(comm.rank(), num_elements);
  run(comm, message_allreduce(Algorithm::Ring, Link(comm), std::span(values)));
  CHECK(problems(comm, wrong_sum(comm, values)) == "");
}

TEST_CASE("shared memory leaves the sum on every rank, with the same bits in each step") {
  MpiCommunicator comm(kTimeout);
  const size_t num_elements = GENERATE(0, 1, 17, 1000, 70000, 300001);
  Allreduce allreduce(comm, num_elements);
  std::string problem;
  for (int step = 0; step < 5; ++step) {
    const auto mine = values_of(comm.rank(), num_elements);
    std::copy(mine.begin(), mine.end(), allreduce.values().begin());
    allreduce.start(num_elements / 2, num_elements - num_elements / 2);
    allreduce.start(0, num_elements / 2);
    allreduce.finish();
    problem += wrong_sum(comm, {allreduce.values().begin(), allreduce.values().end()});
  }
  CHECK(problems(comm, problem) == "");
}

TEST_CASE("gradients of uneven buckets are summed while they become ready") {
  MpiCommunicator comm(kTimeout);
  const std::vector<size_t> sizes = {300, 1, 0, 17, 10};
  constexpr size_t kElements = 328;
  float expected = 0;
  size_t right = 0, wrong = 0;
  ReducerOptions options{.mode = SumMode::Fast, .num_leaves = size_t(comm.size())};
  options.bucket_bytes = 256;
  options.consume = [&](size_t, std::span<const float> sums) {
    for (const float sum : sums) {
      right += sum == expected;
      wrong += sum != expected && sum != 0;  // 0: padding of a slot
    }
  };
  Reducer reducer(comm, FlatLayout(sizes), options);
  constexpr int kSteps = 3;
  const int ranks = comm.size();
  for (int step = 0; step < kSteps; ++step) {
    expected = float(ranks * (step + 1) + ranks * (ranks - 1) / 2);
    reducer.begin();
    for (size_t parameter = sizes.size(); parameter-- > 0;) {
      for (float& value : reducer.gradient(0, parameter)) value = float(step + 1 + comm.rank());
      reducer.ready(0, parameter);
    }
    reducer.end();
    reducer.finish();
  }
  float all_right = float(right);
  if (reducer.consumes_shares()) {
    run(comm, message_allreduce(Algorithm::Ring, Link(comm), std::span(&all_right, 1)));
  }
  const bool good = wrong == 0 && all_right == float(kSteps * kElements);
  CHECK(problems(comm, good ? "" : "wrong sum") == "");
}

TEST_CASE("a rank that does not answer is named after the timeout") {
  MpiCommunicator comm(kTimeout);
  std::string problem;
  {
    MpiCommunicator impatient(100ms);
    if (comm.rank() > 0) {
      std::byte message{};
      try {
        impatient.receive(std::span(&message, 1), 0);
        problem = "received something";
      } catch (const Error& error) {
        const std::string expected =
            "rank " + std::to_string(comm.rank()) + ": rank 0 did not answer within 0.1 s";
        if (!std::string(error.what()).starts_with(expected)) problem = error.what();
      }
    }
  }
  CHECK(problems(comm, problem) == "");
}

TEST_CASE("a message of another size than expected names both ranks") {
  MpiCommunicator comm(kTimeout);
  if (comm.size() == 1) return;  // Open MPI truncates a message to oneself silently
  const int next = (comm.rank() + 1) % comm.size();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  std::vector<std::byte> sent(GENERATE(4, 12)), received(8);  // too few, too many
  std::string problem = "no error";
  try {
    comm.send_receive(sent, next, received, previous);
  } catch (const Error& error) {
    const std::string expected = "rank " + std::to_string(comm.rank()) +
                                 " expected 8 bytes from rank " + std::to_string(previous);
    problem = std::string(error.what()).starts_with(expected) ? "" : error.what();
  }
  CHECK(problems(comm, problem) == "");
}
