#pragma once

#include <filesystem>
#include <system_error>

namespace dlflow {

/// Removes `root` and everything below it, including read-only folders, with three descriptors at
/// any depth (std's takes one for each level). Removes links without following them. A missing
/// `root` is fine. Throws Error naming a path that cannot be removed.
void remove_tree(const std::filesystem::path& root);

/// The same for callers that cannot handle a failure.
void remove_tree(const std::filesystem::path& root, std::error_code& error) noexcept;

}  // namespace dlflow
