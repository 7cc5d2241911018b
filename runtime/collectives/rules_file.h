#pragma once

#include <filesystem>
#include <string_view>

#include "runtime/collectives/rules.h"
#include "runtime/collectives/topology.h"

/// The rules of a cluster: one line per shape of ranks, "2x4 allreduce=...", two nodes of four
/// ranks. What follows a # is for people.
namespace dlflow::runtime {

/// The line of `shape` (Topology::text) in `text`; empty rules if there is none. Throws
/// Error{InvalidInput} naming `path` and the line that is wrong.
RuleSet rules_for_shape(std::string_view text, const std::string& shape,
                        const std::filesystem::path& path);

/// Writes or replaces the line of `shape` in the file, which need not exist, after `comment`.
void store_rules(const std::filesystem::path& path, const std::string& shape, const RuleSet& rules,
                 const std::string& comment);

}  // namespace dlflow::runtime
