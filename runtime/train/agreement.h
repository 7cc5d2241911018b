#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/comm/communicator.h"

/// Exchanges and comparisons of small values between all ranks.
namespace dlflow::runtime {

/// Returns the `value` of each rank, indexed by rank. Collective; P small broadcasts.
template <typename T>
requires std::is_trivially_copyable_v<T> std::vector<T> gather(Communicator& comm, const T& value) {
  std::vector<T> values(size_t(comm.size()), value);
  for (int rank = 0; rank < comm.size(); ++rank) {
    comm.broadcast(std::as_writable_bytes(std::span(&values[size_t(rank)], 1)), rank);
  }
  return values;
}

/// A value that must be the same on all ranks.
struct CommonValue {
  std::string what;        ///< "the model", for the message
  std::string value;       ///< compared by hash
  std::string shown = {};  ///< readable form for the message; may be empty
  std::string advice = "start all ranks with the same files and settings";
};

/// Throws Error{InvalidInput} on every rank if a value differs. The message names the value, the
/// ranks that differ from rank 0, the readable form on the first of them, and what to do.
/// Collective; every rank passes values in the same order.
void require_agreement(Communicator& comm, const std::vector<CommonValue>& values);

}  // namespace dlflow::runtime
