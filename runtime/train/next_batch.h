#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/data/loader.h"

namespace dlflow::runtime {

/// The loader's next batch. A rank that waits until `images`, those of the loader's options, are
/// read does not count as stalled for as long as something comes.
LocalBatch next_batch(const Communicator& comm, Loader& loader, StepImages* images);

}  // namespace dlflow::runtime
