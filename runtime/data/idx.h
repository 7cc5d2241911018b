#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/dataset.h"

/// IDX, the format of MNIST: a big-endian header with the number and size of the dimensions, then
/// the values. Source: http://yann.lecun.com/exdb/mnist/
namespace dlflow::runtime {

/// An array of unsigned bytes.
struct IdxArray {
  std::vector<uint32_t> dimensions;  ///< 1 to 4, outermost first
  std::vector<uint8_t> values;       ///< as many as their product
};

/// Reads an IDX file's content. Throws Error{Corrupt}, "`name`: reason", unless the header is one
/// of unsigned bytes and the content is exactly as long as it says.
IdxArray parse_idx(std::string_view content, const std::string& name);

/// Images (N, H, W) or (N, C, H, W), and labels (N), which stay in their files. Throws Error as
/// parse_idx, NotFound if a file is not there, Corrupt if their numbers differ.
Dataset read_idx_pair(const std::filesystem::path& images, const std::filesystem::path& labels);

/// The same from what the two files hold.
Dataset join_idx(IdxArray images, const std::string& images_name, IdxArray labels,
                 const std::string& labels_name);

}  // namespace dlflow::runtime
