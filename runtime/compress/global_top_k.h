#pragma once

#include "runtime/compress/message_sum.h"

namespace dlflow::runtime {

/// As the sums in message_sum.h, of which only the largest survive: ranks merge their sparse
/// messages two by two and go on with as many entries as one has. What is dropped on the way goes
/// back to what the ranks it came from have not sent.
///
/// Any number of ranks: those beyond a power of two hand their message to another first
/// (folding.h). Cost: lg P (a + m b), for other P up to 2(a + m b) more.
/// Source: Shi et al., "A distributed synchronous SGD algorithm with global top-k sparsification
/// for low bandwidth networks", ICDCS 2019; there, what one of two merging ranks still has hides
/// what was dropped of the other's.
Task sum_of_global_top(Link link, const Compressor& compressor, Occasion occasion, Unsent unsent,
                       std::span<float> sum);

}  // namespace dlflow::runtime
