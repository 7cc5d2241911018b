#pragma once

#include <span>

#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// Replaces `values` on every rank by their sum over all ranks, in place.
///
/// Collective: every rank of `comm` calls it in the same order with the same `values.size()`, which
/// may be anything; otherwise it throws, at the latest after the communicator's timeout.
/// \param values  (num_elements) fp32 in host memory.
///
/// Each P-th of the values is summed in ring order, starting behind its number: all ranks get the
/// same bits, and so do runs with the same P; with another P they agree to rounding.
/// Cost for P ranks and S bytes: 2(P-1) rounds in which a rank sends S/P bytes, in messages of at
/// most 256 KiB, which stay in its cache; the same scratch memory.
/// Throws Error{Unavailable} on timeout or a lost peer; `comm` is then unusable.
/// Source: Patarasuk and Yuan, J. Parallel Distrib. Comput. 69 (2009), 117-124.
void ring_allreduce(Communicator& comm, std::span<float> values);

}  // namespace dlflow::runtime
