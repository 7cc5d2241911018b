#pragma once

#include <filesystem>

#include "base/process.h"

namespace dlflow {

/// Kills the remaining processes of an attempt whose supervisor, `leader`, is dead: programs in its
/// session, and those with sessions of their own. Spares other processes, even if one has reused
/// the supervisor's pid.
void end_left_programs(const ProcessIdentity& leader, const std::filesystem::path& attempt);

}  // namespace dlflow
