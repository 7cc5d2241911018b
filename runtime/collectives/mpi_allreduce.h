#pragma once

#include "runtime/collectives/task.h"
#include "runtime/comm/values.h"

namespace dlflow::runtime {

/// Replaces `values` on every rank by their sum over all ranks, in place, by the message library's
/// own algorithm (MPI_Iallreduce). Requires that `comm` has one for this type: 32- and 64-bit
/// numbers over MPI. Collective. The library determines the order of addition and the cost.
Task mpi_allreduce(Communicator& comm, Values values);

}  // namespace dlflow::runtime
