#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

/// One run of a program that transfers files: they know proxies, keys, certificates and protocols
/// of the cluster, and dlflow is a static program that cannot even look up host names.
namespace dlflow::steps {

struct Tool {
  std::vector<std::string> argv;
  std::filesystem::path temporary;             ///< begins the names of two files it may use
  std::vector<std::string> environment = {};   ///< "NAME=value", beside what this process has
  std::filesystem::path standard_output = {};  ///< appended to; empty: in the result
};

struct ToolResult {
  int exit_status = 0;
  std::string output;
  std::string message;  ///< what it wrote on standard error
};

/// Called every 20 ms while a tool runs, with what it has written so far.
using ToolWatch = std::function<void(const ToolResult& so_far)>;

/// Runs `tool` to its end. If `watch` throws, or the step is asked to stop, it and what it started
/// are killed first. Throws Stopped, and Error{NotFound} with what to do if there is no such
/// program.
ToolResult run_tool(const Tool& tool, const ToolWatch& watch = {});

/// The error for a failure, "`what`: …" in the tool's own words: Error{Unavailable} unless they are
/// known to mean that trying again does not help.
Error tool_error(const std::string& what, const ToolResult& result);

}  // namespace dlflow::steps
