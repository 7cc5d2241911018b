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

}  // namespace dlflow::runtime
