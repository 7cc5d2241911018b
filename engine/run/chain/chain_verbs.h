#pragma once

#include <memory>

#include "engine/batch/batch_system.h"
#include "engine/run/verbs.h"

namespace dlflow {

/// The verbs on chains in a batch system.
std::unique_ptr<Verbs> chain_verbs(std::unique_ptr<BatchSystem> batch,
                                   const VerbServices& services);

}  // namespace dlflow
