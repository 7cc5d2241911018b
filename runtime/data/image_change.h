#pragma once

#include <cstdint>

#include "runtime/data/dataset.h"

namespace dlflow::runtime {

/// A crop: `height` x `width` pixels from (`top`, `left`) on.
struct CropBox {
  uint32_t top = 0, left = 0, height = 0, width = 0;

  bool operator==(const CropBox&) const = default;
};

/// A square of `side` pixels around (`y`, `x`), clipped to the image.
struct Hole {
  uint32_t y = 0, x = 0, side = 0;

  bool operator==(const Hole&) const = default;
};

/// The change of one image, in the order of its steps.
struct ImageChange {
  /// Output (y, x) is input (y + shift_y, x + shift_x), of the mirrored image if `flip`, and 0
  /// outside of it.
  int shift_y = 0, shift_x = 0;
  bool flip = false;
  CropBox crop = {};  ///< enlarged to the whole image, bilinear; height 0: no crop
  float angle =
      0;  ///< degrees, counterclockwise around the centre, bilinear; 0 outside of the input

  /// Factors as in torchvision's ColorJitter: for the distance to black, to the image's mean grey,
  /// and to the pixel's grey.
  float brightness = 1, contrast = 1, saturation = 1;
  Hole hole = {};  ///< side 0: no hole

  bool operator==(const ImageChange&) const = default;
};

/// Applies `change`, except for the hole, to one image (C, H, W) of bytes or floats. `input` and
/// `output` must not overlap. Bytes are rounded and clamped to 0 to 255. Contrast and saturation
/// require one channel, or red, green and blue.
template <typename T>
void apply_change(const ImageChange& change, const ImageShape& shape, const T* input, T* output);

/// Writes the mask (H, W) for an image after apply_change() and cut_out(): each pixel gets the
/// class nearest to the position that it is read from, and kNoClass outside. Colours and holes
/// change no class.
template <typename T>
void change_mask(const ImageChange& change, const ImageShape& shape, const T* input, float* output);

/// Sets the hole in a normalised image (C, H, W) to 0, which is the mean.
void cut_out(const Hole& hole, const ImageShape& shape, float* image);

}  // namespace dlflow::runtime
