#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/step_images.h"

namespace dlflow::runtime {

/// A network's input is value * scale[c] + shift[c] for each channel c of the stored pixels.
struct Normalization {
  std::vector<float> scale;  ///< (C)
  std::vector<float> shift;  ///< (C)

  bool operator==(const Normalization&) const = default;
};

/// Sums over the pixels of one channel: exact for bytes, in double precision for floats.
struct PixelSums {
  uint64_t bytes = 0, squared_bytes = 0;
  double floats = 0, squared_floats = 0;
};

/// Images per partial sum, independent of ranks, so that total sums always have the same bits.
constexpr size_t kNormalizationBlock = 1024;
size_t num_normalization_blocks(const Dataset& dataset);

/// Returns the sums of one block, by channel. `images`, unless null, checks the samples when they
/// are read.
std::vector<PixelSums> sums_of_block(const Dataset& dataset, size_t block,
                                     StepImages* images = nullptr);

/// Returns the scale and shift that give the pixels of `dataset` mean 0 and variance 1 in each
/// channel. A constant channel is only shifted. Sums of bytes are exact, so the result is the same
/// on every machine. \param sums  of all blocks in order, (blocks, C)
Normalization normalization_of(const Dataset& dataset, std::span<const PixelSums> sums);
Normalization normalization_of(const Dataset& dataset);

/// Writes the network's input for one image (C, H, W) of bytes or floats; the same bits on every
/// CPU.
template <typename T>
void normalize(const Normalization& normalization, const ImageShape& shape, const T* pixels,
               float* output);

}  // namespace dlflow::runtime
