#pragma once

#include <string>

#include "engine/cli/session.h"

namespace dlflow {

/// track() if the workflow of `run` asks for it, for a few seconds at most. For verbs that do
/// something else, once they have shown it: what fails is a warning.
void keep_track(Session& session, const std::string& run);

}  // namespace dlflow
