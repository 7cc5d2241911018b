#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/data/dataset.h"

/// Sizes of single pictures: their limits, and the common size of a data set.
namespace dlflow::runtime {

/// Limits of one picture, checked before memory is allocated for it.
constexpr uint32_t kMaxPictureSide = 1 << 14;
constexpr size_t kMaxPicturePixels = size_t{1} << 26;

/// Throws Error{Corrupt} unless each side is 1 to kMaxPictureSide, and the area at most
/// kMaxPicturePixels.
void require_picture_size(const ImageShape& shape, const std::string& name);

/// The size to which pictures of `shape` are resized, if it differs.
std::optional<PictureSize> size_after_resizing(const ImageShape& shape, const Reshaping& reshaping);

/// Throws Error{Corrupt}, "`name`: reason", unless `size` can be cut out of pictures of `shape`.
void require_room_for_crop(const ImageShape& shape, PictureSize size, const std::string& name);

/// Returns the shape of pictures of `shape` after `reshaping`. Throws Error{Corrupt}, "`name`:
/// reason", if they are too small to be cut, or become too large.
ImageShape shape_after(const ImageShape& shape, const Reshaping& reshaping,
                       const std::string& name);

}  // namespace dlflow::runtime
