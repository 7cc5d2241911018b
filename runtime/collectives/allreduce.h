#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "runtime/collectives/reduction.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// An fp32 buffer on every rank, and its sum or mean over ranks, taken range by range while the
/// rest is still being computed. It owns the memory, so that ranks of a node can share it.
/// Implementations: SharedMemoryAllreduce, and the ring (private to allreduce.cpp).
class Allreduce {
 public:
  virtual ~Allreduce() = default;

  /// This rank's values, 64-byte aligned; zero at first.
  virtual std::span<float> values() = 0;

  /// Announces that this rank's values [first, first + count) are final; until finish() returns
  /// they are neither read nor written by the caller. Collective: every rank starts the same ranges
  /// in the same order. May reduce earlier ranges, and may wait for peers.
  virtual void start(size_t first, size_t count) = 0;

  /// Returns when every started range holds the result on this rank, and the caller may write it
  /// again. All ranks get the same bits; runs with the same P agree bit for bit.
  /// Throws Error{Unavailable} naming the rank that was waited for in vain.
  virtual void finish() = 0;
};

/// The fastest way for these ranks: through shared memory if they are all on one node, else the
/// ring. Collective. `comm` must outlive the result.
std::unique_ptr<Allreduce> make_allreduce(Communicator& comm, size_t num_elements,
                                          Reduction reduction);

}  // namespace dlflow::runtime
