#pragma once

#include <vector>

#include "runtime/data/dataset.h"

namespace dlflow::runtime {

/// A network's input is value * scale[c] + shift[c] for each channel c of the stored pixels.
struct Normalization {
  std::vector<float> scale;  ///< (C)
  std::vector<float> shift;  ///< (C)

  bool operator==(const Normalization&) const = default;
};

/// What gives the pixels of `dataset`, taken together per channel, mean 0 and variance 1. A channel
/// that is the same everywhere is only shifted. Exact sums for bytes: the same on every machine.
Normalization normalization_of(const Dataset& dataset);

/// Writes the network's input for one image (C, H, W); the same bits on every CPU.
void normalize(const Normalization& normalization, const ImageShape& shape, const uint8_t* pixels,
               float* output);
void normalize(const Normalization& normalization, const ImageShape& shape, const float* pixels,
               float* output);

}  // namespace dlflow::runtime
