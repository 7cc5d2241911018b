#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/import/picture.h"

/// Brings pictures of many sizes to a common one.
namespace dlflow::runtime {

/// Parses "224" (square) or "320x240" (width, height). Throws Error{InvalidInput} naming `option`.
PictureSize parse_picture_size(const std::string& text, const std::string& option);

/// Lines for kPictureSizes, such as "resize 256" and "crop 224x224", and the reshaping in them;
/// other lines are ignored. Throws Error{InvalidInput} for an invalid size.
std::vector<std::string> lines_of(const Reshaping& reshaping);
Reshaping reshaping_in(const std::vector<std::string>& lines);

/// Sets what `--resize` means: "224" is the shorter side, "320x240" the whole size.
void set_resizing(Reshaping& reshaping, const std::string& text);

/// Resizes by the triangle filter over all contributing pixels, as Pillow's BILINEAR and PyTorch's
/// `interpolate(mode="bilinear", antialias=True)`. Throws Error{Corrupt}, "`name`: reason", if the
/// picture is smaller than the crop.
Picture reshape(Picture picture, const Reshaping& reshaping, const std::string& name);

}  // namespace dlflow::runtime
