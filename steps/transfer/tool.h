#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

/// One run of a program that transfers files. Such programs support the cluster's proxies, keys,
/// certificates and protocols; dlflow is a static program that cannot even look up host names.
namespace dlflow::steps {

struct Tool {
  std::vector<std::string> argv;
  std::filesystem::path temporary;             ///< prefix for the names of two temporary files
  std::vector<std::string> environment = {};   ///< "NAME=value", in addition to this process's
  std::filesystem::path standard_output = {};  ///< appended to; empty: into the result
};

struct ToolResult {
  int exit_status = 0;
  std::string output;
  std::string message;  ///< from standard error
};

/// Called every 20 ms while a tool runs, with its output so far.
using ToolWatch = std::function<void(const ToolResult& so_far)>;

/// Runs `tool` to its end. If `watch` throws or the step must stop, kills it and its children
/// first. Throws Stopped, and Error{NotFound} with advice if there is no such program.
ToolResult run_tool(const Tool& tool, const ToolWatch& watch = {});

/// The error for a failure, "`what`: …" in the tool's own words: Error{Unavailable} unless they
/// indicate that a retry cannot help.
Error tool_error(const std::string& what, const ToolResult& result);

}  // namespace dlflow::steps
