#pragma once

#include <span>
#include <string>
#include <vector>

namespace dlflow {

enum class Align { Left, Right };

/// Rows of plain text in columns, two spaces apart and each as wide as its widest cell. All rows
/// have as many cells as `align`.
std::string columns(std::span<const std::vector<std::string>> rows, std::span<const Align> align);

/// How wide these rows would be.
size_t columns_width(std::span<const std::vector<std::string>> rows);

}  // namespace dlflow
