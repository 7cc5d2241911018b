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

/// An array of unsigned bytes, where they lie.
struct IdxArray {
  std::vector<uint32_t> dimensions;  ///< 1 to 4, outermost first
  std::string_view values;           ///< as many as their product
};

/// Reads an IDX file's content. Throws Error{Corrupt}, "`name`: reason", unless the header is one
/// of unsigned bytes and the content is exactly as long as it says.
IdxArray parse_idx(std::string_view content, const std::string& name);

/// The content of a file, and where that is.
struct IdxFile {
  std::filesystem::path path;
  SharedBytes content;
};

/// Images (N, H, W) or (N, C, H, W), and labels (N), which stay where they are. Throws Error as
/// parse_idx, Corrupt if their numbers differ.
Dataset join_idx(const IdxFile& images, const IdxFile& labels);

/// The same of files, which are mapped. Throws Error{NotFound} if one is not there.
Dataset read_idx_pair(const std::filesystem::path& images, const std::filesystem::path& labels);

}  // namespace dlflow::runtime
