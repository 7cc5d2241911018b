#pragma once

#include <string>
#include <vector>

namespace dlflow {

/// The `scheduler:` of a profile whose jobs run on this machine.
inline constexpr const char* kLocalScheduler = "local";

/// The values of `scheduler:`: kLocalScheduler, and the batch systems in the order of
/// batch_systems.def.
std::vector<std::string> schedulers();

}  // namespace dlflow
