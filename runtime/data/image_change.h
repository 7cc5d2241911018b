#pragma once

#include <cstdint>

#include "runtime/data/dataset.h"

namespace dlflow::runtime {

/// The part of an image that a crop shows: `height` x `width` pixels from (`top`, `left`) on.
struct CropBox {
  uint32_t top = 0, left = 0, height = 0, width = 0;

  bool operator==(const CropBox&) const = default;
};

/// A square of `side` pixels around (`y`, `x`), of which the part within the image counts.
struct Hole {
  uint32_t y = 0, x = 0, side = 0;

  bool operator==(const Hole&) const = default;
};

/// The change of one image, in the order in which it is made.
struct ImageChange {
  /// Output (y, x) is input (y + shift_y, x + shift_x), of the mirrored image if `flip`, and 0
  /// where that is outside.
  int shift_y = 0, shift_x = 0;
  bool flip = false;
  CropBox crop = {};  ///< enlarged to the whole image, bilinear; of height 0: there is none
  float angle =
      0;  ///< degrees, counterclockwise around the middle, bilinear; 0 where it leaves the image

  /// Factors as in torchvision's ColorJitter: of the distance to black, to the mean of the image's
  /// grey, and to the grey of the pixel.
  float brightness = 1, contrast = 1, saturation = 1;
  Hole hole = {};  ///< of side 0: there is none

  bool operator==(const ImageChange&) const = default;
};

/// Writes one image (C, H, W) of bytes or floats to `output` as `change` says, but for the hole;
/// the two do not overlap. Bytes are rounded and stay in 0 to 255. With a contrast or a saturation
/// the image has one channel, or three: red, green and blue.
template <typename T>
void apply_change(const ImageChange& change, const ImageShape& shape, const T* input, T* output);

/// Writes the mask (H, W) of an image that becomes what apply_change() and cut_out() make of it: of
/// each pixel the class that is nearest to the place it is read from, and kNoClass where that is
/// outside. Colours and holes change no class.
template <typename T>
void change_mask(const ImageChange& change, const ImageShape& shape, const T* input, float* output);

/// Makes 0, the mean of normalised images, of what is in the hole of one (C, H, W).
void cut_out(const Hole& hole, const ImageShape& shape, float* image);

}  // namespace dlflow::runtime
