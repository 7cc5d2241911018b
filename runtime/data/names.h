#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace dlflow::runtime {

/// Files beside packed data: the names of its classes in the order of labels, and how its samples
/// were made: "feature NAME" and "target NAME" or "text NAME" for columns of a table, "resize 256"
/// and "crop 224" for pictures.
constexpr const char* kClassNames = "classes.txt";
constexpr const char* kColumnNames = "columns.txt";

/// Returns the lines of such a file, without a UTF-8 byte order mark and trailing empty lines;
/// empty if the file does not exist. Throws Error{Corrupt} for a name that is not UTF-8.
std::vector<std::string> read_names(const std::filesystem::path& file);

/// Returns why `name` cannot be a line of such a file: "is empty", "has control characters" or "is
/// not UTF-8". Nothing if it can.
std::string mistake_in_name(std::string_view name);

/// If `content` begins like UTF-16 or a compressed file, returns the format and how to convert it:
/// "is UTF-16; …". Nothing if it may be UTF-8 text.
std::string not_plain_text(std::string_view content);

}  // namespace dlflow::runtime
