#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/process.h"

namespace dlflow {

/// Returns the call of a program of steps, such as dlflow-train, outside of any step: in `folder`,
/// without the variables of a step. Throws Error{NotFound} if it is not beside this program.
Command step_program(const std::string& name, const std::filesystem::path& folder,
                     const std::vector<std::string>& arguments);

}  // namespace dlflow
