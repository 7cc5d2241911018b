#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/shared_bytes.h"
#include "runtime/data/binary_writer.h"
#include "runtime/data/dataset.h"

/// Reads NumPy's .npy files. Source: numpy.lib.format, "Format Version 1.0" to "3.0".
namespace dlflow::runtime {

struct NpyArray {
  std::string type;  ///< "|u1", "<f4", "<i8", …, as in NumPy
  std::vector<uint64_t> shape;
  SharedBytes values;  ///< row-major
};

/// Throws Error{Corrupt}, "`name`: reason", unless `content` is a single row-major array whose
/// length agrees with its header.
NpyArray parse_npy(const SharedBytes& content, const std::string& name);

/// Images (N, H, W) or (N, C, H, W), or a table (N, F), of uint8 or float32, which stay in their
/// file; a table may also have other types of numbers. `answers` are labels (N) of any integer
/// type, and the number of classes is the largest plus one; or targets, (N) floats or (N, T) of any
/// numbers. Throws Error.
/// \param notes  gets a line for likely mistakes: whole numbers that are rounded
Dataset read_npy_pair(const std::filesystem::path& images, const std::filesystem::path& answers,
                      std::vector<std::string>* notes = nullptr);

/// Returns tokens (N) of any integer type, from 0 to less than `vocabulary`. Throws Error.
std::vector<uint32_t> read_npy_tokens(const std::filesystem::path& file, size_t vocabulary);

/// Whether `file` is an array of three dimensions, as masks (N, H, W) are.
bool has_npy_masks(const std::filesystem::path& file);

/// Images (N, H, W) or (N, C, H, W) of uint8 or float32, which stay in their file, and their masks,
/// (N, H, W) of any integer type: classes, `ignored` or 255. The number of classes is the largest
/// plus one. Throws Error.
SampleSource read_npy_masks(const std::filesystem::path& images, const std::filesystem::path& masks,
                            std::optional<int64_t> ignored);

}  // namespace dlflow::runtime
