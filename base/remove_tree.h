#pragma once

#include <filesystem>
#include <system_error>

namespace dlflow {

/// Removes `root` and everything below it, read-only folders too, with three descriptors whatever
/// the depth (std's takes one for each level). Links are removed and not followed. A missing `root`
/// is fine. Throws Error naming the path that stays.
void remove_tree(const std::filesystem::path& root);

/// The same for callers that can do nothing about a failure.
void remove_tree(const std::filesystem::path& root, std::error_code& error) noexcept;

}  // namespace dlflow
