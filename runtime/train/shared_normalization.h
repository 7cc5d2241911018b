#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/data/normalization.h"

namespace dlflow::runtime {

/// normalization_of(dataset), for which each rank reads its share of the images. The same bits for
/// any number of ranks. `images`: where they are, if not where the data set has them.
/// Collective; throws what StepImages::find throws.
Normalization shared_normalization(Communicator& comm, const Dataset& dataset, StepImages* images);

}  // namespace dlflow::runtime
