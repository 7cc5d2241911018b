#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/data/loader.h"

namespace dlflow::runtime {

/// Returns the loader's next batch. A rank that waits for `images`, those of the loader's options,
/// does not count as stalled as long as data arrives.
LocalBatch next_batch(const Communicator& comm, Loader& loader, StepImages* images);

}  // namespace dlflow::runtime
