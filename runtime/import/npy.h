#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/shared_bytes.h"
#include "runtime/data/binary_writer.h"
#include "runtime/data/dataset.h"

/// NumPy's .npy files. Source: numpy.lib.format, "Format Version 1.0" to "3.0".
namespace dlflow::runtime {

struct NpyArray {
  std::string type;  ///< "|u1", "<f4", "<i8", …, as NumPy writes it
  std::vector<uint64_t> shape;
  SharedBytes values;  ///< in the order of C
};

/// Throws Error{Corrupt}, "`name`: reason", unless `content` is one array in the order of C that is
/// as long as its header says.
NpyArray parse_npy(const SharedBytes& content, const std::string& name);

/// Images (N, H, W) or (N, C, H, W), or a table (N, F), of uint8 or float32, which stay in their
/// file; a table may also have numbers of other types. With labels (N) of any integers, of which
/// there are as many classes as the largest plus one; or with targets, (N) floats or (N, T) of any
/// numbers. Throws Error.
/// \param notes  gets a line for what may be a mistake: whole numbers that are rounded
Dataset read_npy_pair(const std::filesystem::path& images, const std::filesystem::path& answers,
                      std::vector<std::string>* notes = nullptr);

/// Tokens (N) of any integers from 0 to less than `vocabulary`. Throws Error.
std::vector<uint32_t> read_npy_tokens(const std::filesystem::path& file, size_t vocabulary);

/// Whether it is an array of three dimensions, as masks (N, H, W) are.
bool has_npy_masks(const std::filesystem::path& file);

/// Images (N, H, W) or (N, C, H, W) of uint8 or float32, which stay in their file, and their masks,
/// (N, H, W) of any integers: classes, of which there are as many as the largest plus one, or
/// `ignored` or 255. Throws Error.
SampleSource read_npy_masks(const std::filesystem::path& images, const std::filesystem::path& masks,
                            std::optional<int64_t> ignored);

}  // namespace dlflow::runtime
