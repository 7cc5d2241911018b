#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/import/reshape.h"

/// Masks: pictures whose values are class numbers.
namespace dlflow::runtime {

struct Mask {
  uint32_t height = 0, width = 0;
  std::vector<uint8_t> classes;  ///< (H, W)

  ImageShape shape() const { return {1, height, width}; }
};

/// Whether the extension of `file` is that of PNG or PGM.
bool is_mask(const std::filesystem::path& file);

/// Returns the grey values or palette indices of a PNG file of up to 8 bits, or the values of PGM
/// (P5). Throws Error{Corrupt}, "`name`: reason", for anything else.
Mask parse_mask(std::string_view content, const std::string& name);

/// Resizes and cuts as reshape() for pictures; each pixel takes the class nearest to its centre.
Mask reshape(Mask mask, const Reshaping& reshaping, const std::string& name);

/// Returns the class for `value`, kNoClass for `ignored` and 255, or nothing if it is invalid.
std::optional<uint8_t> class_of(int64_t value, std::optional<int64_t> ignored);

}  // namespace dlflow::runtime
