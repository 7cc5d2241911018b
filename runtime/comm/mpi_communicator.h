#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/descriptor_memory.h"
#include "runtime/comm/mpi_plugin_abi.h"
#include "runtime/comm/shared_library.h"

namespace dlflow::runtime {

/// The MPI library of the launcher that started this process, opened at run time: no program links
/// one. Ranks find each other only with their launcher's own library; with another, each would be
/// rank 0 of 1. So the launcher's variables select the binary interface, and the loader finds the
/// file, in LD_LIBRARY_PATH and the system's folders. The plug-in for that interface
/// (mpi_plugin_abi.h) lies in ../lib/dlflow relative to the program's folder, also within a run.
class MpiLibrary {
 public:
  /// Throws Error{NotFound} with the files that were tried and a remedy.
  MpiLibrary();

  /// "Open MPI v4.1.4, plug-in libdlflow_mpi_40.so"; requires initialized MPI.
  std::string name() const;

  const DlflowMpiPlugin* functions() const { return functions_; }

 private:
  std::optional<SharedLibrary> library_, plugin_;
  std::string plugin_name_;
  const DlflowMpiPlugin* functions_ = nullptr;
};

/// Initializes MPI and finalizes it on destruction: main's first local, outside its try block. Any
/// thread may call MPI, one at a time.
class MpiEnvironment {
 public:
  /// Throws Error{NotFound} if no MPI library of the launcher can be opened; a library that fails
  /// to initialize ends the process.
  MpiEnvironment(int& argc, char**& argv);
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

  /// Waits until all ranks are here.
  ~MpiEnvironment();

  /// This process's rank, for messages; P ranks were started.
  int rank() const;

  /// "Open MPI v4.1.4"
  std::string library() const { return library_.name(); }

  /// Ends every rank's process. Called if a rank cannot go on: if it just exited, the others would
  /// wait for it.
  [[noreturn]] void abort(int exit_status) const;

 private:
  MpiLibrary library_;
};

/// For its lifetime, calls that block inside MPI yield the core while they wait, so that a rank on
/// the same core reaches the same call: MPI spins if it assumes that every rank has its own core.
/// Has no effect in libraries other than Open MPI. At most one exists at a time.
class PoliteMpi {
 public:
  PoliteMpi();
  PoliteMpi(const PoliteMpi&) = delete;
  PoliteMpi& operator=(const PoliteMpi&) = delete;
  ~PoliteMpi();

 private:
  std::optional<bool> before_;  // if the library has the switch
};

/// A communicator of all ranks that mpirun or srun started; lives within the lifetime of
/// MpiEnvironment. Several threads may have messages under way.
class MpiCommunicator : public Communicator {
 public:
  /// Collective over all ranks. Throws Error if MPI reports one, or allows only one thread.
  explicit MpiCommunicator(std::chrono::milliseconds timeout);
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  /// Collective, except while an exception unwinds: then nothing is freed, because the other ranks
  /// may never come here; MpiEnvironment::abort follows.
  ~MpiCommunicator() override;

  int rank() const override { return ranks_.rank; }
  int size() const override { return ranks_.size; }
  std::chrono::milliseconds timeout() const override { return timeout_; }

  Transfer start_send(std::span<const std::byte> bytes, int to, int channel) override;
  Transfer start_receive(std::span<std::byte> bytes, int from, int channel) override;
  bool done(Transfer& transfer) override;
  Transfer start_sum(const Values& values) override;
  bool can_sum(DataType type) const override;

  std::span<const int> nodes() const override { return nodes_; }
  int node_size() const override { return ranks_.node_size; }
  int node_rank() const override { return ranks_.node_rank; }
  std::span<std::byte* const> allocate_shared(size_t bytes) override;

 private:
  /// A message of at most 1 GiB, as MPI counts with int.
  struct Piece {
    DlflowMpiHandle request;
    size_t bytes;
  };
  uint64_t new_number();
  Piece& new_piece(const Transfer& transfer, size_t bytes);
  bool done(Piece& piece, const Transfer& transfer) const;
  void wait_for_node();
  /// Whether MPI has room for the memory that the ranks of this node request.
  bool has_room_for(size_t bytes);
  void find_nodes();

  struct Window {
    DlflowMpiHandle handle;
    std::vector<std::byte*> parts;
  };

  std::chrono::milliseconds timeout_;
  DlflowMpiRanks ranks_{};
  std::vector<int> nodes_;
  int exceptions_at_start_;
  std::vector<std::vector<Piece>> under_way_;  // [number of a transfer]: its unfinished pieces
  std::vector<uint64_t> free_numbers_;
  std::vector<Window> windows_;  // their `parts` are never reallocated
  std::deque<DescriptorMemory> memories_;
};

}  // namespace dlflow::runtime
