#pragma once

#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/data/epoch_order.h"
#include "runtime/data/normalization.h"

/// Work on the data that ranks divide among themselves.
namespace dlflow::runtime {

/// Returns the order that the ranks of this node share. Collective over the node, so ranks with
/// `reads` false call it, too. `comm` must outlive the result.
std::unique_ptr<EpochOrder> shared_order(Communicator& comm, size_t num_samples, uint64_t seed,
                                         bool reads = true);

/// Returns normalization_of(dataset); each rank reads its share of the images. Same bits for any
/// number of ranks. `images`, unless null, checks them when they are read. Collective; throws what
/// StepImages::check throws.
Normalization shared_normalization(Communicator& comm, const Dataset& dataset, StepImages* images);

}  // namespace dlflow::runtime
