#pragma once

#include <string>
#include <vector>

namespace dlflow {

/// Runs a program of the host on an image, with `variables` ("NAME=value") added to the caller's
/// environment. Throws Error{InvalidInput} with its message if it fails.
void run_tool(const std::vector<std::string>& argv, const std::vector<std::string>& variables = {});

/// Returns whether it succeeds.
bool try_tool(const std::vector<std::string>& argv);

/// Returns its output; empty if it fails.
std::string output_of_tool(const std::vector<std::string>& argv);

/// This process's environment, with the entries "NAME=value" of `changes` set.
std::vector<std::string> changed_environment(const std::vector<std::string>& changes);

}  // namespace dlflow
