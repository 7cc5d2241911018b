#pragma once

#include <string>
#include <vector>

/// The environment of the processes around a container.
namespace dlflow {

/// This process's environment, with "NAME=value" of `changes` in place of what it has.
std::vector<std::string> changed_environment(const std::vector<std::string>& changes);

}  // namespace dlflow
