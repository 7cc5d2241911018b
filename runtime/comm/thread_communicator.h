#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// Ranks as threads of this process, with any number per "node": tests of collectives use them
/// (tests/support/on_ranks.h), with or without MPI on the machine.
class ThreadGroup {
 public:
  /// `ranks_per_node` consecutive ranks share memory; the last node may have fewer. 0: all ranks.
  explicit ThreadGroup(int num_ranks, std::chrono::milliseconds timeout = std::chrono::seconds(10),
                       int ranks_per_node = 0);
  ~ThreadGroup();

  /// The communicator of `rank`, for the one thread that acts as that rank; lives as long as this.
  Communicator& communicator(int rank);

  struct Shared;  ///< the ranks' shared state; defined in thread_communicator.cpp

 private:
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace dlflow::runtime
