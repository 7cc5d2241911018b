#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/data/dataset.h"

/// The project's own format for a split, one file NAME.dlset: docs/data-format.md has every byte.
namespace dlflow::runtime {

/// The file's content, and its inverse: bytes -> Dataset throws Error{Corrupt}, "`name`: reason",
/// unless header, length and SHA-256 agree and every label is below num_classes.
std::string format_binary_dataset(const Dataset& dataset);
Dataset parse_binary_dataset(std::string_view content, const std::string& name);

/// Writes the file: a reader sees all of it or what was there before.
void write_binary_dataset(const std::filesystem::path& file, const Dataset& dataset);
Dataset read_binary_dataset(const std::filesystem::path& file);

}  // namespace dlflow::runtime
