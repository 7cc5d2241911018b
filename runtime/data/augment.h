#pragma once

#include <cstdint>

#include "runtime/data/dataset.h"

namespace dlflow::runtime {

/// Random changes to training images.
struct Augmentation {
  uint32_t crop_padding = 0;  ///< shift by up to this many pixels each way; black moves in
  bool flip = false;          ///< mirror left-right with probability 1/2

  bool operator==(const Augmentation&) const = default;
};

/// The change of one image: output (y, x) is input (y + shift_y, x + shift_x), of the mirrored
/// image if `flip`, and 0 where that is outside.
struct ImageChange {
  int shift_y = 0, shift_x = 0;
  bool flip = false;

  bool operator==(const ImageChange&) const = default;
};

/// Drawn for (seed, epoch, sample): the same whichever rank or thread asks, and when.
ImageChange draw_change(const Augmentation& augmentation, uint64_t seed, uint64_t epoch,
                        uint32_t sample);

/// Writes one image (C, H, W) to `output` as `change` says; the two do not overlap.
void apply_change(const ImageChange& change, const ImageShape& shape, const uint8_t* input,
                  uint8_t* output);
void apply_change(const ImageChange& change, const ImageShape& shape, const float* input,
                  float* output);

}  // namespace dlflow::runtime
