#pragma once

#include <string>
#include <vector>

namespace dlflow {

/// Runs a program of the host that works on an image; `variables` ("NAME=value") are added to the
/// caller's. Throws Error{InvalidInput} with its message if it fails.
void run_tool(const std::vector<std::string>& argv, const std::vector<std::string>& variables = {});

/// Whether it succeeds.
bool try_tool(const std::vector<std::string>& argv);

/// Its output; empty if it fails.
std::string output_of_tool(const std::vector<std::string>& argv);

/// This process's environment, with the values "NAME=value" of `changes`.
std::vector<std::string> changed_environment(const std::vector<std::string>& changes);

}  // namespace dlflow
