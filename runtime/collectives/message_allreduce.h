#pragma once

#include "runtime/collectives/link.h"
#include "runtime/collectives/rules.h"
#include "runtime/collectives/task.h"
#include "runtime/comm/values.h"

namespace dlflow::runtime {

/// The algorithms that need only messages between ranks.
inline constexpr std::array kMessageAlgorithms = {
    Algorithm::RecursiveDoubling, Algorithm::Rabenseifner, Algorithm::Ring, Algorithm::Tree};

/// Replaces `values` on every rank by their sum over all ranks, in place, by the given algorithm.
/// Collective: every rank starts it in the same order with the same type and count; any count is
/// allowed.
Task message_allreduce(Algorithm algorithm, Link link, Values values);

/// Replaces `values` on every rank by their sum over all ranks, in place, by the message library's
/// own algorithm (MPI_Iallreduce). Requires that `comm` has one for this type: 32- and 64-bit
/// numbers over MPI. Collective. The library determines the order of addition and the cost.
Task mpi_allreduce(Communicator& comm, Values values);

}  // namespace dlflow::runtime
