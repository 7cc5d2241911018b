#pragma once

#include <filesystem>
#include <string_view>

#include "runtime/collectives/rules.h"
#include "runtime/collectives/topology.h"

/// The rules of a cluster: one line per shape of ranks, such as "2x4 allreduce=..." for two nodes
/// of four ranks. Text after a # is a comment.
namespace dlflow::runtime {

/// Parses the line for `shape` (Topology::text) in `text`; returns empty rules if there is none.
/// Throws Error{InvalidInput} naming `path` and the faulty line.
RuleSet rules_for_shape(std::string_view text, const std::string& shape,
                        const std::filesystem::path& path);

/// Adds or replaces the line for `shape`, ending in `comment`; creates the file if needed.
void store_rules(const std::filesystem::path& path, const std::string& shape, const RuleSet& rules,
                 const std::string& comment);

}  // namespace dlflow::runtime
