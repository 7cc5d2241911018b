#pragma once

#include <vector>

#include "base/aligned_floats.h"
#include "runtime/collectives/allreduce.h"

namespace dlflow::runtime {

/// All-reduce by messages, in any order of addition: every rank sends each other rank its share of
/// the elements of all parts, adds up its own share, and sends the sum back to all.
///
/// Cost for P ranks with a part of S bytes each: 2(P-1) messages per rank, which together have the
/// ring's 2(P-1)/P S bytes; what is sent for parts beyond the first comes on top. Scratch memory
/// for the parts of all ranks, at most 256 KiB of each. Source: the direct exchange of Thakur,
/// Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", Int. J.
/// High Perf. Comp. Appl. 19 (2005).
class DirectAllreduce : public Allreduce {
 public:
  /// Collective.
  DirectAllreduce(Communicator& comm, size_t num_elements, SumOrder order);

  std::span<float> part(size_t index) override;

  /// Reduces the range at once: messages need the thread that sends them.
  void start(size_t first, size_t count) override;
  void finish() override {}

 private:
  struct Range {
    size_t first, count;
  };

  /// Piece `index` of rank `rank`'s share of `all`; may be empty.
  Range piece(const Range& all, int rank, size_t index) const;
  void collect(const Range& all, size_t index);
  void add_up(const Range& mine);
  void distribute(const Range& all, size_t index);

  Communicator& comm_;
  size_t num_elements_;
  size_t stride_;  // from one part of this rank to the next
  SumOrder order_;
  std::vector<size_t> first_part_;  // of each rank, counted over all; and the number of all
  AlignedFloats values_;            // the parts of this rank
  AlignedFloats scratch_;           // a piece of each part of all ranks
};

}  // namespace dlflow::runtime
