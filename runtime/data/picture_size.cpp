#include "runtime/data/picture_size.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

/// Computes the other side for `--resize N`, and keeps the ratio.
PictureSize with_shorter_side(const ImageShape& shape, uint32_t shorter) {
  const auto longer = [&](uint32_t a, uint32_t b) {  // requires a >= b
    return uint32_t(std::max<uint64_t>(shorter, uint64_t(shorter) * a / b));
  };
  if (shape.width < shape.height) return {shorter, longer(shape.height, shape.width)};
  return {longer(shape.width, shape.height), shorter};
}

}  // namespace

void require_picture_size(const ImageShape& shape, const std::string& name) {
  if (shape.height < 1 || shape.width < 1 ||
      std::max(shape.height, shape.width) > kMaxPictureSide) {
    throw_corrupt(name, fmt::format("is {} x {} pixels; a picture has 1 to {} on each side",
                                    shape.width, shape.height, kMaxPictureSide));
  }
  if (size_t(shape.height) * shape.width > kMaxPicturePixels) {
    throw_corrupt(name, fmt::format("is {} x {} pixels; a picture has {} at most", shape.width,
                                    shape.height, kMaxPicturePixels));
  }
}

std::optional<PictureSize> size_after_resizing(const ImageShape& shape,
                                               const Reshaping& reshaping) {
  if (!reshaping.shorter_side && !reshaping.size) return std::nullopt;
  const PictureSize to =
      reshaping.size ? *reshaping.size : with_shorter_side(shape, *reshaping.shorter_side);
  if (to == PictureSize{shape.width, shape.height}) return std::nullopt;
  return to;
}

ImageShape shape_after(const ImageShape& shape, const Reshaping& reshaping,
                       const std::string& name) {
  ImageShape after = shape;
  if (const auto size = size_after_resizing(shape, reshaping)) {
    after = {shape.channels, size->height, size->width};
    require_picture_size(after, name);
  }
  if (!reshaping.crop) return after;
  require_room_for_crop(after, *reshaping.crop, name);
  return {shape.channels, reshaping.crop->height, reshaping.crop->width};
}

void require_room_for_crop(const ImageShape& shape, PictureSize size, const std::string& name) {
  if (size.width <= shape.width && size.height <= shape.height) return;
  throw_corrupt(name, fmt::format("has {} x {} pixels, too few to crop to {} x {}; "
                                  "--resize makes it larger first",
                                  shape.width, shape.height, size.width, size.height));
}

}  // namespace dlflow::runtime
