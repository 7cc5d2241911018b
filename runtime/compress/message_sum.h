#pragma once

#include <span>

#include "runtime/collectives/link.h"
#include "runtime/compress/compressor.h"

/// Ways to add the ranks' compressed gradients. Each is a coroutine, takes a rank's unsent values,
/// leaves the remainder there, and writes to `sum` (of the same size) the sum of all sent values
/// over the ranks of `link`: the same bits on every rank, and in every run with as many ranks.
/// Collective; the same sizes, method and occasion on every rank. Memory that arguments refer to
/// must outlive the task.
///
/// With P ranks, messages of m bytes, a seconds per message and b per byte sent:
namespace dlflow::runtime {

/// Every rank gets the messages of all and adds them in the order of ranks.
/// Cost: (P-1) a + (P-1) m b.
Task sum_of_all_messages(Link link, const Compressor& compressor, Occasion occasion, Unsent unsent,
                         std::span<float> sum);

/// For methods whose messages are floats that can be added as they are (RandomK).
/// Cost: that of dense_sum() for m bytes.
Task sum_of_added_messages(Link link, const Compressor& compressor, Occasion occasion,
                           Unsent unsent, std::span<float> sum);

/// For methods that send every number (Half, Int8): each rank adds a share of the numbers and sends
/// the compressed sums to all; it keeps the remainder. Long ranges are summed chunk by chunk. Cost
/// of each chunk: 2(P-1) a + 2(P-1)/P m b.
/// Source: the two stages of Tang et al., "DoubleSqueeze", ICML 2019.
Task sum_of_shares(Link link, const Compressor& compressor, Occasion occasion, Unsent unsent,
                   std::span<float> sum);

/// Like the others, but only the largest entries of the sum survive: ranks merge their sparse
/// messages in pairs and keep as many entries as one message has. A dropped entry returns to the
/// unsent values of the ranks that it came from.
///
/// Works for any number of ranks: those beyond a power of two hand their message to another first
/// (folding.h). Cost: lg P (a + m b), for other P up to 2(a + m b) more.
/// Source: Shi et al., "A distributed synchronous SGD algorithm with global top-k sparsification
/// for low bandwidth networks", ICDCS 2019; in the paper, an entry that one merging rank still has
/// hides the other's dropped one.
Task sum_of_global_top(Link link, const Compressor& compressor, Occasion occasion, Unsent unsent,
                       std::span<float> sum);

/// Replaces `values` by their sum over the ranks of `link`, with the same bits on all: for ranges
/// too short to compress, and messages that can be added directly. Collective; the same size on all
/// ranks. Costs as recursive doubling for few bytes or two ranks, otherwise as Rabenseifner.
Task dense_sum(Link link, std::span<float> values);

}  // namespace dlflow::runtime
