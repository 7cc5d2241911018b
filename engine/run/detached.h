#pragma once

#include "base/process.h"

namespace dlflow {

/// Starts `command` in a session of its own, as a child of nobody here. Throws Error{Unavailable}
/// naming the program if it cannot be started.
void start_detached(const Command& command);

}  // namespace dlflow
