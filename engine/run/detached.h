#pragma once

#include "base/process.h"

namespace dlflow {

/// Starts `command` in a session of its own, not as a child of this process. Throws
/// Error{Unavailable} naming the program if it cannot be started. It inherits only the descriptors
/// 0, 1 and 2.
void start_detached(Command command);

}  // namespace dlflow
