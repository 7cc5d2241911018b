#pragma once

#include <string>
#include <vector>

#include "runtime/import/picture.h"

/// Brings pictures of many sizes to a common one.
namespace dlflow::runtime {

/// Parses "224" (square) or "320x240" (width, height). Throws Error{InvalidInput} naming `option`.
PictureSize parse_picture_size(const std::string& text, const std::string& option);

/// Reads lines of kColumnNames: "resize 256" is the shorter side, "resize 320x240" the whole size,
/// "crop 224" what to cut out; ignores others. Throws Error{InvalidInput} for an invalid size.
Reshaping reshaping_in(const std::vector<std::string>& lines);

/// Resizes by the triangle filter over all contributing pixels, as Pillow's BILINEAR and PyTorch's
/// `interpolate(mode="bilinear", antialias=True)`. Throws Error{Corrupt}, "`name`: reason", if the
/// picture is smaller than the crop.
Picture reshape(Picture picture, const Reshaping& reshaping, const std::string& name);

}  // namespace dlflow::runtime
