// Where each rank runs, told to rank 0 through MPI: what srun has to start, and messages between
// nodes.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <exception>
#include <span>

#include "runtime/comm/mpi_communicator.h"

int main(int argc, char** argv) {
  const dlflow::runtime::MpiEnvironment mpi(argc, argv);
  try {
    dlflow::runtime::MpiCommunicator comm(std::chrono::seconds(20));
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    const auto bytes = std::as_writable_bytes(std::span(host));
    if (comm.rank() != 0) comm.send(bytes, 0);
    for (int rank = 0; comm.rank() == 0 && rank < comm.size(); ++rank) {
      if (rank != 0) comm.receive(bytes, rank);
      std::printf("rank %d of %d on %s\n", rank, comm.size(), host.data());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", mpi.rank(), error.what());
    mpi.abort(1);
  }
}
