#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/picture_size.h"

/// Single pictures: JPEG; PNG of 8 or 16 bits, grey, in colour or with a palette; PGM and PPM (P5,
/// P6).
namespace dlflow::runtime {

struct Picture {
  ImageShape shape;
  std::vector<uint8_t> values;  ///< (C, H, W); or
  std::vector<float> floats;    ///< if 16 bits per value: also from 0 to 255, in steps of 1/257

  bool is_wide() const { return !floats.empty(); }
};

/// Whether the extension of `file` is that of a picture.
bool is_picture(const std::filesystem::path& file);

/// Puts transparent pixels on black. Throws Error{Corrupt}, "`name`: reason", for other content.
Picture parse_picture(std::string_view content, const std::string& name);

/// Reorders (H, W, C) to (C, H, W).
template <typename T>
std::vector<T> channels_first(const ImageShape& shape, const T* values) {
  const size_t plane = size_t(shape.height) * shape.width;
  std::vector<T> result(shape.num_values());
  for (uint32_t c = 0; c < shape.channels; ++c) {
    for (size_t i = 0; i < plane; ++i) result[c * plane + i] = values[i * shape.channels + c];
  }
  return result;
}

}  // namespace dlflow::runtime
