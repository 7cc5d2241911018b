#pragma once

#include <span>

#include "runtime/collectives/link.h"

namespace dlflow::runtime {

/// Replaces `values` by their sum over the ranks of `link`, with the same bits on all: for ranges
/// too short to compress, and messages that can be added directly. Collective; the same size on all
/// ranks. Costs as recursive doubling for few bytes or two ranks, otherwise as Rabenseifner.
Task dense_sum(Link link, std::span<float> values);

}  // namespace dlflow::runtime
