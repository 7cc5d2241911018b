#pragma once

#include <cstdint>
#include <span>

#include "runtime/data/augment.h"

namespace dlflow::runtime {

/// One leaf of training samples to mix in place.
struct MixedLeaf {
  std::span<const uint32_t> samples;  ///< (count), indices in the data set
  float* images = nullptr;            ///< (count, C, H, W), normalised
  std::span<float> shares;            ///< (count, classes), shares of classes in each image
};

/// Mixes each image with the next one of the leaf, the last with the first, as `augmentation`
/// requires, and their shares likewise. The draws depend on (seed, epoch, sample) alone, and so do
/// leaves: the result is the same for any number of ranks.
/// Source: mixup: Zhang et al., ICLR 2018; CutMix: Yun et al., ICCV 2019.
void mix(const Augmentation& augmentation, const ImageShape& shape, uint64_t seed, uint64_t epoch,
         const MixedLeaf& leaf);

}  // namespace dlflow::runtime
