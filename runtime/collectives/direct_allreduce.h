#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/collectives/link.h"
#include "runtime/collectives/sum_order.h"
#include "runtime/comm/values.h"

namespace dlflow::runtime {

/// Numbers in the form that travels: the values themselves if they have the wire type, otherwise
/// rounded copies of fp32 numbers, which live until unpack().
class WireBuffer {
 public:
  explicit WireBuffer(DataType wire) : wire_(wire) {}

  /// Returns the data to send for `values`.
  Values packed(const Values& values);

  /// Returns the memory that receives the data for `values`.
  Values room_for(const Values& values);

  /// Converts the received data into the values given to room_for().
  void unpack();

 private:
  Values copy_of_size(size_t count);

  struct Arrival {
    Values values, rounded;
  };
  DataType wire_;
  std::vector<std::unique_ptr<std::byte[]>> copies_;
  std::vector<Arrival> arrivals_;
};

/// This rank's contribution to a direct all-reduce, and the order of the additions.
struct DirectSum {
  std::vector<Values> parts;        ///< order.num_parts[rank] of them, all of one size and type
  Values result;                    ///< receives the sum; may be a part
  const SumOrder* order = nullptr;  ///< over the ranks of the link; outlives the task
  DataType wire = result.type;      ///< the type that travels: for Float32 also Float16 or BFloat16
};

/// Leaves in `sum.result` on every rank the sum of the parts of all ranks, added in any given
/// order: every rank sends each other rank its share of all parts, adds up its own share by
/// sum_parts(), and sends the sum back to all. With a narrow wire type the parts of others and the
/// sum are rounded once each; all ranks get the same bits, including the owner of a share.
/// Collective; the same order, size and types on every rank.
///
/// Cost for P ranks with a part of n bytes each, with a seconds per message, b per byte sent, g per
/// byte added: 2(P-1) a + 2(P-1)/P n b + (P-1)/P n g, as the ring, but all messages of each half
/// are under way together; sending parts beyond the first costs extra. With 16 bits on the wire, b
/// is halved. Scratch memory for 256 KiB of each part of all ranks.
/// Source: the direct exchange of Thakur, Rabenseifner and Gropp, "Optimization of collective
/// communication operations in MPICH", Int. J. High Perf. Comp. Appl. 19 (2005).
Task direct_allreduce(Link link, DirectSum sum);

}  // namespace dlflow::runtime
