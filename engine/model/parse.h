#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "engine/model/workflow.h"

/// Parses YAML text into a Workflow, or lists all its mistakes.
namespace dlflow {

/// Limits on what a file may ask for, each named in its message, and whether files are checked.
struct ParseLimits {
  size_t max_file_bytes = size_t{4} << 20;
  size_t max_elements = 1'000'000;  ///< over all matrices
  size_t max_depth = 64;
  size_t max_nodes = 1'000'000;  ///< YAML nodes after aliases are expanded (alias bombs)
  bool check_files = true;       ///< named files must exist; a frozen run has its own copies
};

/// `set` holds the "key=value" of each --set, the value read as YAML; an unknown key is a
/// Diagnostic for file "--set". Files that the workflow names (models, inputs) are looked up beside
/// `file`. Never throws for bad input: returns every mistake that one pass can find, in file order.
std::variant<Workflow, Diagnostics> parse_workflow(const std::filesystem::path& file,
                                                   const std::vector<std::string>& set = {},
                                                   const ParseLimits& limits = {});

/// Like parse_workflow(), for text in memory.
std::variant<Workflow, Diagnostics> parse_workflow_text(std::string text,
                                                        const std::filesystem::path& file,
                                                        const std::vector<std::string>& set = {},
                                                        const ParseLimits& limits = {});

}  // namespace dlflow
