#pragma once

#include "runtime/compress/message_sum.h"

namespace dlflow::runtime {

/// Like the sums in message_sum.h, but only the largest entries of the sum survive: ranks merge
/// their sparse messages in pairs and keep as many entries as one message has. A dropped entry
/// returns to the unsent values of the ranks that it came from.
///
/// Works for any number of ranks: those beyond a power of two hand their message to another first
/// (folding.h). Cost: lg P (a + m b), for other P up to 2(a + m b) more.
/// Source: Shi et al., "A distributed synchronous SGD algorithm with global top-k sparsification
/// for low bandwidth networks", ICDCS 2019; in the paper, an entry that one merging rank still has
/// hides the other's dropped one.
Task sum_of_global_top(Link link, const Compressor& compressor, Occasion occasion, Unsent unsent,
                       std::span<float> sum);

}  // namespace dlflow::runtime
