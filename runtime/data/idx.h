#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/shared_bytes.h"
#include "runtime/data/dataset.h"

/// IDX, the format of MNIST: a big-endian header with the number and size of the dimensions, then
/// the values. Source: http://yann.lecun.com/exdb/mnist/
namespace dlflow::runtime {

/// An array of unsigned bytes in a file's content.
struct IdxArray {
  std::vector<uint32_t> dimensions;  ///< 1 to 4, outermost first
  std::string_view values;           ///< length: the product of `dimensions`
};

/// Reads an IDX file's content. Throws Error{Corrupt}, "`name`: reason", unless the values are
/// unsigned bytes and the content has the length that the header requires.
IdxArray parse_idx(std::string_view content, const std::string& name);

/// A file's content and name.
struct IdxFile {
  std::filesystem::path path;
  SharedBytes content;
};

/// Images (N, H, W) or (N, C, H, W), and labels (N), without copying them. Throws Error like
/// parse_idx, Corrupt if their numbers differ.
Dataset join_idx(const IdxFile& images, const IdxFile& labels);

/// The same for files, which are mapped. Throws Error{NotFound} if one does not exist.
Dataset read_idx_pair(const std::filesystem::path& images, const std::filesystem::path& labels);

}  // namespace dlflow::runtime
