#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/dataset.h"

/// Single pictures: PNG of 8 bits, grey, in colour or with a palette, and PGM and PPM (P5, P6).
namespace dlflow::runtime {

struct Picture {
  ImageShape shape;
  std::vector<uint8_t> values;  ///< (C, H, W)
};

/// By the ending of its name.
bool is_picture(const std::filesystem::path& file);

/// Throws Error{Corrupt}, "`name`: reason", for anything else, and for transparency and 16 bits.
Picture parse_picture(std::string_view content, const std::string& name);

}  // namespace dlflow::runtime
