#pragma once

#include "runtime/compress/compressor.h"

namespace dlflow::runtime {

/// Sends about the largest gradients, and as many as TopK: a threshold is searched for by bisection
/// between the mean and the maximum, which takes nothing but passes that count, and what is missing
/// comes from just below it: a run of neighbours, from where chance says.
///
/// Beside the paper: of a long range a sample tells where to begin, so that it is read once; below
/// the mean, too, where so many are asked for; any number of equals at the maximum; with NaN or
/// infinity in the range exactly the largest, those first.
/// Source: Shi et al., "Towards scalable distributed training of deep learning on public cloud
/// clusters", MLSys 2021, algorithm 1.
class MsTopK final : public Compressor {
 public:
  size_t message_bytes(size_t count, const Occasion& occasion) const override;
  void encode(std::span<const float> values, const Occasion& occasion,
              std::span<std::byte> message) const override;
  void add(std::span<const std::byte> message, const Occasion& occasion, float sign,
           std::span<float> into) const override;
};

}  // namespace dlflow::runtime
