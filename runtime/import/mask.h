#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/import/reshape.h"

/// Masks: pictures whose values are the numbers of classes.
namespace dlflow::runtime {

struct Mask {
  uint32_t height = 0, width = 0;
  std::vector<uint8_t> classes;  ///< (H, W)

  ImageShape shape() const { return {1, height, width}; }
};

/// By the ending of its name: a PNG or PGM file.
bool is_mask(const std::filesystem::path& file);

/// Of a PNG file of up to 8 bits the grey values, or the places in its palette; of PGM (P5) the
/// values. Throws Error{Corrupt}, "`name`: reason", for anything else.
Mask parse_mask(std::string_view content, const std::string& name);

/// The changes of reshape(), where each pixel takes the class that is nearest to its middle.
Mask reshape(Mask mask, const Reshaping& reshaping, const std::string& name);

/// The class that `value` stands for, kNoClass for `ignored` and for 255, or nothing.
std::optional<uint8_t> class_of(int64_t value, std::optional<int64_t> ignored);

}  // namespace dlflow::runtime
