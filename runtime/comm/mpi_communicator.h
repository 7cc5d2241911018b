#pragma once

#include <mpi.h>

#include <chrono>
#include <optional>
#include <vector>

#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// MPI from construction to destruction: main's first local, outside its try block. Any thread may
/// call MPI, one at a time.
class MpiEnvironment {
 public:
  MpiEnvironment(int& argc, char**& argv);
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

  /// Waits for all ranks to come here.
  ~MpiEnvironment();

  /// This process's rank, for messages; P ranks were started.
  int rank() const;

  /// Ends every rank's process. For a rank that cannot go on: if it just left, the others would
  /// wait for it.
  [[noreturn]] void abort(int exit_status) const;
};

/// For its lifetime, calls that block inside MPI yield the core while they wait, so that a rank
/// that shares it comes to the same call: MPI spins wherever it believes that every rank has a core
/// of its own. Nothing changes in libraries other than Open MPI. One thread at a time has one.
class PoliteMpi {
 public:
  PoliteMpi();
  PoliteMpi(const PoliteMpi&) = delete;
  PoliteMpi& operator=(const PoliteMpi&) = delete;
  ~PoliteMpi();

 private:
  std::optional<bool> before_;  // if there is such a switch
};

/// MPI's name of `type`: MPI_DATATYPE_NULL for 16-bit floats, which MPI 3 does not know.
MPI_Datatype mpi_type(DataType type);

/// A communicator of all ranks that mpirun or srun started. Several threads may have messages under
/// way.
class MpiCommunicator : public Communicator {
 public:
  /// Collective over all ranks. Throws Error if MPI reports one, or lets no second thread call it.
  explicit MpiCommunicator(std::chrono::milliseconds timeout);
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  /// Collective, except while an exception unwinds: then nothing is freed, because the other ranks
  /// may never come here, and MpiEnvironment::abort is what follows.
  ~MpiCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::chrono::milliseconds timeout() const override { return timeout_; }

  Transfer start_send(std::span<const std::byte> bytes, int to, int channel) override;
  Transfer start_receive(std::span<std::byte> bytes, int from, int channel) override;
  bool done(Transfer& transfer) override;
  Transfer start_sum(const Values& values) override;
  bool can_sum(DataType type) const override;

  std::span<const int> nodes() const override { return nodes_; }
  int node_size() const override { return node_size_; }
  int node_rank() const override { return node_rank_; }
  std::span<std::byte* const> allocate_shared(size_t bytes) override;

 private:
  /// A message of at most 1 GiB, as MPI counts with int.
  struct Piece {
    MPI_Request request;
    size_t expected_bytes;  // of a receive
  };
  uint64_t new_number();
  bool done(Piece& piece, const Transfer& transfer) const;
  void wait_for_node();
  void find_nodes();

  struct Window {
    MPI_Win handle;
    std::vector<std::byte*> parts;
  };

  std::chrono::milliseconds timeout_;
  MPI_Comm world_ = MPI_COMM_NULL;  // a copy, so that no other library's messages meet ours
  MPI_Comm node_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 0, node_rank_ = 0, node_size_ = 0;
  std::vector<int> nodes_;
  int exceptions_at_start_;
  std::vector<std::vector<Piece>> under_way_;  // [number of a transfer]: what has not ended of it
  std::vector<uint64_t> free_numbers_;
  std::vector<Window> windows_;  // the elements of their parts never move
};

}  // namespace dlflow::runtime
