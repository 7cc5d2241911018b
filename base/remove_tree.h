#pragma once

#include <filesystem>
#include <system_error>

namespace dlflow {

/// Removes `root` and all that is below it, read-only folders too, with three descriptors however
/// deep that is (std's takes one for each level). Links are removed and not followed. Nothing at
/// `root` is fine. Throws Error naming what stays.
void remove_tree(const std::filesystem::path& root);

/// The same for where nobody can do anything about a failure.
void remove_tree(const std::filesystem::path& root, std::error_code& error) noexcept;

}  // namespace dlflow
