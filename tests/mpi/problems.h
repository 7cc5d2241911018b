#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/comm/communicator.h"

namespace dlflow::test {

/// Gathers every rank's non-empty `problem`, as "rank 2: ...", the same text on every rank.
inline std::string problems(runtime::Communicator& comm, const std::string& problem) {
  std::string all;
  for (int rank = 0; rank < comm.size(); ++rank) {
    uint64_t size = problem.size();
    comm.broadcast(std::as_writable_bytes(std::span(&size, 1)), rank);
    std::string text = rank == comm.rank() ? problem : std::string(size, ' ');
    comm.broadcast(std::as_writable_bytes(std::span(text)), rank);
    if (size > 0) all += "rank " + std::to_string(rank) + ": " + text + "\n";
  }
  return all;
}

}  // namespace dlflow::test
