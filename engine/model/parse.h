#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "engine/model/workflow.h"

/// YAML text -> Workflow, or everything that is wrong with it.
namespace dlflow {

/// Limits on what a file may ask for; the message of each names it. What is checked besides.
struct ParseLimits {
  size_t max_file_bytes = size_t{4} << 20;
  size_t max_elements = 1'000'000;  ///< of all matrices together
  size_t max_depth = 64;
  size_t max_nodes = 1'000'000;  ///< YAML nodes after aliases are expanded (alias bombs)
  bool check_files = true;  ///< files that the workflow names must exist; a frozen run has its own
};

/// `set` holds "key=value" of --set, the value read as YAML; an unknown key is a Diagnostic for
/// file "--set". Files that the workflow names (models, inputs) are looked up beside `file`.
/// Never throws for bad input: every mistake that can be found in one pass is in the list, in file
/// order.
std::variant<Workflow, Diagnostics> parse_workflow(const std::filesystem::path& file,
                                                   const std::vector<std::string>& set = {},
                                                   const ParseLimits& limits = {});

/// As parse_workflow, for text that is already in memory.
std::variant<Workflow, Diagnostics> parse_workflow_text(std::string text,
                                                        const std::filesystem::path& file,
                                                        const std::vector<std::string>& set = {},
                                                        const ParseLimits& limits = {});

}  // namespace dlflow
