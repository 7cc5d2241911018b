#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/import/picture.h"

/// Pictures of many sizes become pictures of one.
namespace dlflow::runtime {

/// "224" is a square, "320x240" width and height. Throws Error{InvalidInput} naming `option`.
PictureSize parse_picture_size(const std::string& text, const std::string& option);

/// Resizes by the triangle filter, which covers all pixels that become one: as Pillow's BILINEAR
/// and PyTorch's `interpolate(mode="bilinear", antialias=True)`.
/// Throws Error{Corrupt}, "`name`: reason", if the picture is smaller than what is to be cut out.
Picture reshape(Picture picture, const Reshaping& reshaping, const std::string& name);

}  // namespace dlflow::runtime
