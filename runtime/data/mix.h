#pragma once

#include <cstdint>
#include <span>

#include "runtime/data/augment.h"

namespace dlflow::runtime {

/// One leaf of training samples, to be mixed in place.
struct MixedLeaf {
  std::span<const uint32_t> samples;  ///< (count), their numbers in the data set
  float* images = nullptr;            ///< (count, C, H, W), normalised
  std::span<float> shares;            ///< (count, classes), of the classes in each image
};

/// Mixes each image with the next one of the leaf, the last with the first, as `augmentation` says,
/// and likewise their shares. What is drawn depends on (seed, epoch, sample): the same on any
/// number of ranks, since a leaf is.
/// Source: mixup: Zhang et al., ICLR 2018; CutMix: Yun et al., ICCV 2019.
void mix(const Augmentation& augmentation, const ImageShape& shape, uint64_t seed, uint64_t epoch,
         const MixedLeaf& leaf);

}  // namespace dlflow::runtime
