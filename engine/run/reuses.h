#pragma once

#include <vector>

#include "engine/store/store.h"

namespace dlflow {

/// Which runs use which results of others: those that the store knows of, and those that runs which
/// have not ended are to reuse by their own records. The store has these a moment later, or, of an
/// engine that was killed, never.
std::vector<Reuse> reuses_of_runs(Store& store);

}  // namespace dlflow
