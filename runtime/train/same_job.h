#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/train/trainer.h"

namespace dlflow::runtime {

/// `job`. Ranks that were given different things must not begin: throws Error{InvalidInput} on
/// every rank, naming what differs, also if the data does not fit the model. Collective.
TrainingJob same_on_all(Communicator& comm, TrainingJob job);

}  // namespace dlflow::runtime
