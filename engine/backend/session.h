#pragma once

#include <filesystem>

#include "base/process.h"

namespace dlflow {

/// Kills what is left of an attempt whose supervisor is dead: its programs in the supervisor's
/// session, and those that made sessions of their own. `leader` is the supervisor. Does nothing to
/// others, though one may have its number by now.
void end_left_programs(const ProcessIdentity& leader, const std::filesystem::path& attempt);

}  // namespace dlflow
