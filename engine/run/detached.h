#pragma once

#include "base/process.h"

namespace dlflow {

/// Starts `command` in a session of its own, as a child of nobody here. Throws Error{Unavailable}
/// naming the program if it cannot be started. It gets no descriptor of this process but 0, 1
/// and 2.
void start_detached(Command command);

}  // namespace dlflow
