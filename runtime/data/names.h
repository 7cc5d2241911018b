#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dlflow::runtime {

/// Files beside packed data: the names of its classes in the order of their labels, and of the
/// columns of a table.
constexpr const char* kClassNames = "classes.txt";
constexpr const char* kColumnNames = "columns.txt";

/// The lines of such a file; empty if it is not there.
std::vector<std::string> read_names(const std::filesystem::path& file);

}  // namespace dlflow::runtime
