#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace dlflow::runtime {

/// Files beside packed data: the names of its classes in the order of their labels, and of the
/// columns of a table.
constexpr const char* kClassNames = "classes.txt";
constexpr const char* kColumnNames = "columns.txt";

/// The lines of such a file, without a mark of UTF-8 at its beginning and empty lines at its end;
/// empty if it is not there. Throws Error{Corrupt} for a name that is not UTF-8.
std::vector<std::string> read_names(const std::filesystem::path& file);

/// The reason why `name` cannot be a line of such a file: "is empty", "has control characters" or
/// "is not UTF-8". Nothing if it can.
std::string mistake_in_name(std::string_view name);

/// What `content` is and how to convert it, if it begins as UTF-16 or a compressed file does:
/// "is UTF-16; …". Nothing if it may be text in UTF-8.
std::string not_plain_text(std::string_view content);

}  // namespace dlflow::runtime
