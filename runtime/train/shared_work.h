#pragma once

#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/data/epoch_order.h"
#include "runtime/data/normalization.h"

/// Work on the data that ranks share out instead of each doing all of it.
namespace dlflow::runtime {

/// The order that the ranks of this node have in common; for a rank that `reads` none, too, since
/// the call is collective over the node. `comm` must outlive it.
std::unique_ptr<EpochOrder> shared_order(Communicator& comm, size_t num_samples, uint64_t seed,
                                         bool reads = true);

/// normalization_of(dataset), for which each rank reads its share of the images. The same bits for
/// any number of ranks. `images` checks them when they are read, unless it is null.
/// Collective; throws what StepImages::check throws.
Normalization shared_normalization(Communicator& comm, const Dataset& dataset, StepImages* images);

}  // namespace dlflow::runtime
