#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "runtime/collectives/sum_order.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// fp32 buffers on every rank, its parts, and the sum of the parts of all ranks, taken range by
/// range while the rest is still being computed. It owns the memory, so that ranks of a node can
/// share it. Implementations: SharedMemoryAllreduce, DirectAllreduce, and the ring (private to
/// allreduce.cpp).
class Allreduce {
 public:
  virtual ~Allreduce() = default;

  /// Part `index` of this rank, 64-byte aligned; zero at first.
  virtual std::span<float> part(size_t index) = 0;

  /// Where the sum comes to lie: part 0. A rank without parts has it, too.
  std::span<float> values() { return part(0); }

  /// Announces that elements [first, first + count) of all parts of this rank are final; until
  /// finish() returns they are neither read nor written by the caller. Collective: every rank
  /// starts the same ranges in the same order. May reduce earlier ranges, and may wait for peers.
  virtual void start(size_t first, size_t count) = 0;

  /// Returns when every started range of values() holds the sum, and the caller may write all parts
  /// again. All ranks get the same bits.
  /// Throws Error{Unavailable} naming the rank that was waited for in vain.
  virtual void finish() = 0;
};

/// The fastest way for these ranks to add one part of each: through shared memory if they are all
/// on one node, else the ring. Runs with the same P agree bit for bit. Collective. `comm` must
/// outlive the result.
std::unique_ptr<Allreduce> make_allreduce(Communicator& comm, size_t num_elements);

/// The fastest way that adds in `order`, and so gives the same bits whatever the way: through
/// shared memory, else directly. Collective. `comm` must outlive the result.
std::unique_ptr<Allreduce> make_ordered_allreduce(Communicator& comm, size_t num_elements,
                                                  const SumOrder& order);

}  // namespace dlflow::runtime
