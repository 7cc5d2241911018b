#pragma once

#include "base/process.h"

namespace dlflow {

/// Kills what is left of the session that a dead supervisor led: programs that detached themselves
/// from theirs. Does nothing if the number belongs to another process by now.
void end_session(const ProcessIdentity& leader);

}  // namespace dlflow
