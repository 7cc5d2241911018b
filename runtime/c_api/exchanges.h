#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "runtime/c_api/dlflow_runtime.h"
#include "runtime/collectives/allreduce.h"
#include "runtime/collectives/link.h"
#include "runtime/collectives/node_exchange.h"

/// Collectives of the C interface that runtime/collectives lacks, composed of those that it has. P
/// is the number of ranks.
namespace dlflow::runtime {

/// The paths between the ranks of a group: messages, and shared memory within a node.
struct Paths {
  Link link;
  NodeExchange* node;  ///< null unless all ranks share a node
};

struct Reduction {
  dlflow_type type;
  dlflow_op op;
};

/// Numbers to reduce: `input` on every rank. The result goes to `output`, which may be the same;
/// null if this rank does not need it. Collective.
struct Reduced {
  std::byte* input;
  std::byte* output;
  size_t count;
};

/// The memory of sum_in_pieces(): `count` pieces of `size` numbers.
struct Pieces {
  size_t size, count;
};

/// Puts the sum of `input`, divided by `divisor`, in `output`. Works piece by piece in the memory
/// of `sums`: the values of all ranks are added while the next ones are copied. All values have one
/// type; see Reduced. Within a node, NodeSum is faster.
Task sum_in_pieces(Allreduce& sums, Pieces pieces, Values input, Values output, int divisor);

/// Supports any operation: every rank reduces its share of a piece, in rank order, and sends it to
/// all. Costs as much as reduce_scatter and all_gather; uses memory for two pieces of 1 MiB.
Task reduce_in_pieces(Paths paths, Reduction reduction, Reduced values);

/// Reduces block `rank` of `input` over all ranks in their order. Uses memory for P blocks.
Task reduce_scatter_blocks(Paths paths, Reduction reduction, std::span<const std::byte> input,
                           std::vector<size_t> sizes, std::byte* output);

/// Sends `bytes` of `root` to all ranks.
Task broadcast(Paths paths, std::span<std::byte> bytes, int root);

/// Sends blocks of all ranks to one, or of one to all; P-1 messages at once.
Task gather(Paths paths, std::span<const std::byte> input, std::byte* output, int root);
Task scatter(Paths paths, const std::byte* input, std::span<std::byte> output, int root);

/// Starts by copying this rank's block to its place.
Task all_gather_blocks(Paths paths, std::span<const std::byte> input, std::span<std::byte> output,
                       std::vector<size_t> sizes);

/// Sends block r of `sent` to rank r, which puts it in `received` as block `rank`.
Task all_to_all_blocks(Paths paths, std::span<const std::byte> sent, std::vector<size_t> sent_sizes,
                       std::span<std::byte> received, std::vector<size_t> received_sizes);

Task barrier(Link link);

/// Throws Error{Unavailable} on rank 0 naming the ranks that did not arrive within `timeout`.
Task monitored_barrier(Link link, std::chrono::milliseconds timeout);

}  // namespace dlflow::runtime
