// All-reduce on the ranks that mpirun started, against MPI_Allreduce; see allreduce.sh. Columns as
// nccl-tests: algbw is bytes / time, busbw is algbw * 2(P-1)/P.
#include "runtime/collectives/allreduce.h"

#include <mpi.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "runtime/collectives/ring_allreduce.h"
#include "runtime/comm/mpi_communicator.h"

namespace {

using namespace dlflow::runtime;
using Clock = std::chrono::steady_clock;

/// A way to sum, and the seconds of each of its calls.
struct Contender {
  std::string name;
  std::span<float> values;
  std::function<void()> sum;
  std::vector<double> seconds{};

  double median() {
    std::nth_element(seconds.begin(), seconds.begin() + long(seconds.size() / 2), seconds.end());
    return seconds[seconds.size() / 2];
  }
};

/// One call with freshly written values, as after a backward pass. Ends the program if the sum is
/// wrong.
void run_once(Communicator& comm, Contender& contender) {
  std::fill(contender.values.begin(), contender.values.end(), float(comm.rank() + 1));
  comm.barrier();
  const auto start = Clock::now();
  contender.sum();
  contender.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  const float expected = float(comm.size() * (comm.size() + 1) / 2);
  for (const float value : contender.values) {
    if (value != expected) throw std::runtime_error(contender.name + ": wrong sum");
  }
}

void print_row(size_t bytes, int num_ranks, std::vector<Contender>& contenders) {
  std::printf("%10zu", bytes);
  for (Contender& contender : contenders) {
    const double seconds = contender.median();
    const double bandwidth = double(bytes) / seconds / 1e9;
    std::printf(" |%10.1f %7.2f %7.2f", seconds * 1e6, bandwidth,
                bandwidth * 2 * (num_ranks - 1) / num_ranks);
  }
  std::printf(" | %6.2f\n", contenders[0].median() / contenders[1].median());
  std::fflush(stdout);
}

void measure(Communicator& comm, size_t bytes) {
  const size_t num_elements = bytes / sizeof(float);
  const int calls = bytes < (1 << 20) ? 400 : 60;
  Allreduce shared(comm, num_elements);
  std::vector<float> peer(num_elements), ring(num_elements);
  std::vector<Contender> contenders = {
      {"MPI_Allreduce", peer,
       [&] {
         MPI_Allreduce(MPI_IN_PLACE, peer.data(), int(num_elements), MPI_FLOAT, MPI_SUM,
                       MPI_COMM_WORLD);
       }},
      {"shared memory", shared.values(),
       [&] {
         shared.start(0, num_elements);
         shared.finish();
       }},
      {"ring", ring,
       [&] { dlflow::runtime::run(comm, ring_allreduce(Link(comm), std::span(ring))); }}};
  for (int call = 0; call < calls; ++call) {
    for (Contender& contender : contenders) run_once(comm, contender);
  }
  if (comm.rank() == 0) print_row(bytes, comm.size(), contenders);
}

void run() {
  MpiCommunicator comm(std::chrono::seconds(60));
  if (comm.rank() == 0) {
    std::printf("%d ranks on %u cores, median of calls in turn, microseconds and GB/s\n",
                comm.size(), std::thread::hardware_concurrency());
    std::printf(
        "           |        MPI_Allreduce       |    dlflow, shared memory   |"
        "        dlflow, ring        | MPI :\n");
    std::printf(
        "     bytes |      time   algbw   busbw |      time   algbw   busbw |"
        "      time   algbw   busbw | shared\n");
  }
  for (const size_t bytes : {4'000, 40'000, 400'000, 1'000'000, 2'700'000, 4'800'000, 16'000'000}) {
    measure(comm, bytes);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const MpiEnvironment mpi(argc, argv);
  try {
    run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", mpi.rank(), error.what());
    mpi.abort(1);
  }
  return 0;
}
