#pragma once

#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/data/epoch_order.h"

namespace dlflow::runtime {

/// The order that the ranks of this node have in common; for a rank that `reads` none, too, since
/// the call is collective over the node. `comm` must outlive it.
std::unique_ptr<EpochOrder> shared_order(Communicator& comm, size_t num_samples, uint64_t seed,
                                         bool reads = true);

}  // namespace dlflow::runtime
