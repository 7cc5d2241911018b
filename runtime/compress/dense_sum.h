#pragma once

#include <span>

#include "runtime/collectives/link.h"

namespace dlflow::runtime {

/// Replaces `values` by their sum over the ranks of `link`, with the same bits on all: what is too
/// short to be compressed, and messages that can be added as they are. Collective; the same size on
/// every rank. Cost: that of recursive doubling for few bytes or two ranks, else of Rabenseifner.
Task dense_sum(Link link, std::span<float> values);

}  // namespace dlflow::runtime
