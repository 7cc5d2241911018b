#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "runtime/c_api/dlflow_runtime.h"
#include "runtime/collectives/allreduce.h"
#include "runtime/collectives/link.h"
#include "runtime/collectives/node_exchange.h"

/// Collectives of the C interface that runtime/collectives does not have, put together from those
/// that it has. P is the number of ranks.
namespace dlflow::runtime {

/// The ways between the ranks of a group: messages, and memory if they share a node.
struct Paths {
  Link link;
  NodeExchange* node;  ///< null: they do not
};

struct Reduction {
  dlflow_type type;
  dlflow_op op;
};

/// Numbers at `input` on every rank, reduced, at `output`, which may be the same; null: this rank
/// needs them not. Collective.
struct Reduced {
  std::byte* input;
  std::byte* output;
  size_t count;
};

/// The sum of `input`, divided by `divisor`, comes to `output`, by way of `sums`, whose memory it
/// uses piece by piece: values of all ranks are added while the next ones are copied. All are of
/// one type; see Reduced. Ranks of one node do better with NodeSum.
Task sum_in_pieces(Allreduce& sums, size_t piece, size_t num_pieces, Values input, Values output,
                   int divisor);

/// Any operation: every rank reduces its share of a piece, in the order of ranks, and tells it to
/// all. Costs as reduce_scatter and all_gather; memory for two pieces of 1 MiB.
Task reduce_in_pieces(Paths paths, Reduction reduction, Reduced values);

/// Block `rank` of `input`, reduced over all ranks in their order. Memory for P blocks.
Task reduce_scatter_blocks(Paths paths, Reduction reduction, std::span<const std::byte> input,
                           std::vector<size_t> sizes, std::byte* output);

/// `bytes` of one rank to all.
Task broadcast(Paths paths, std::span<std::byte> bytes, int root);

/// Blocks of all ranks to one, or of one to all; P-1 messages at once.
Task gather(Paths paths, std::span<const std::byte> input, std::byte* output, int root);
Task scatter(Paths paths, const std::byte* input, std::span<std::byte> output, int root);

/// Copies this rank's block to its place first.
Task all_gather_blocks(Paths paths, std::span<const std::byte> input, std::span<std::byte> output,
                       std::vector<size_t> sizes);

/// Block r of `sent` to rank r, which comes to lie there as block `rank` of its `received`.
Task all_to_all_blocks(Paths paths, std::span<const std::byte> sent, std::vector<size_t> sent_sizes,
                       std::span<std::byte> received, std::vector<size_t> received_sizes);

Task barrier(Link link);

/// Throws Error{Unavailable} on rank 0 that names who did not come within `timeout`.
Task monitored_barrier(Link link, std::chrono::milliseconds timeout);

}  // namespace dlflow::runtime
