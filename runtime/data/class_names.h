#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dlflow::runtime {

/// The file beside packed data that names its classes, one a line in the order of their labels.
constexpr const char* kClassNames = "classes.txt";

/// Those of the data in `folder`; empty if it has no such file.
std::vector<std::string> read_class_names(const std::filesystem::path& folder);

}  // namespace dlflow::runtime
