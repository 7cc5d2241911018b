#pragma once

#include "runtime/collectives/link.h"
#include "runtime/collectives/rules.h"
#include "runtime/comm/values.h"

namespace dlflow::runtime {

/// The algorithms that need nothing but messages between ranks.
inline constexpr std::array kMessageAlgorithms = {
    Algorithm::RecursiveDoubling, Algorithm::Rabenseifner, Algorithm::Ring, Algorithm::Tree};

/// Replaces `values` on every rank by their sum over all ranks, in place, by one of them.
/// Collective: every rank starts it in the same order with the same count, which may be anything,
/// and type.
Task message_allreduce(Algorithm algorithm, Link link, Values values);

}  // namespace dlflow::runtime
