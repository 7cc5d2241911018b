#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// Ranks that are threads of this process, as many to a "node" as the caller says: what tests of
/// collectives run on (tests/support/on_ranks.h), with or without MPI on the machine.
class ThreadGroup {
 public:
  /// `ranks_per_node` consecutive ranks share memory, the last node's may be fewer; 0: all of them.
  explicit ThreadGroup(int num_ranks, std::chrono::milliseconds timeout = std::chrono::seconds(10),
                       int ranks_per_node = 0);
  ~ThreadGroup();

  /// The communicator of `rank`, for the one thread that plays that rank; lives as long as this.
  Communicator& communicator(int rank);

  struct Shared;  ///< what the ranks share; known to thread_communicator.cpp only

 private:
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace dlflow::runtime
