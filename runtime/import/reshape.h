#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/import/picture.h"

/// Pictures of many sizes become pictures of one.
namespace dlflow::runtime {

struct PictureSize {
  uint32_t width = 0, height = 0;

  bool operator==(const PictureSize&) const = default;
};

/// "224" is a square, "320x240" width and height. Throws Error{InvalidInput} naming `option`.
PictureSize parse_picture_size(const std::string& text, const std::string& option);

/// The changes of each picture, in this order.
struct Reshaping {
  std::optional<uint32_t> shorter_side;  ///< resize to it and keep the ratio; or
  std::optional<PictureSize> size;       ///< resize to it
  std::optional<PictureSize> crop;       ///< cut this out of the middle

  bool given() const { return shorter_side || size || crop; }
};

/// The size to which pictures of `shape` are resized, if it is another one.
std::optional<PictureSize> size_after_resizing(const ImageShape& shape, const Reshaping& reshaping);

/// Resizes by the triangle filter, which covers all pixels that become one: as Pillow's BILINEAR
/// and PyTorch's `interpolate(mode="bilinear", antialias=True)`.
/// Throws Error{Corrupt}, "`name`: reason", if the picture is smaller than what is to be cut out.
Picture reshape(Picture picture, const Reshaping& reshaping, const std::string& name);

}  // namespace dlflow::runtime
