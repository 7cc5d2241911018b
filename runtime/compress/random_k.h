#pragma once

#include "runtime/compress/compressor.h"

namespace dlflow::runtime {

/// Sends gradients that chance picks, the same on all ranks, so that where they are need not be
/// said, and messages can be added as they are: one of each of k neighbourhoods of equal size.
/// Source: Stich, Cordonnier and Jaggi, "Sparsified SGD with memory", NeurIPS 2018.
class RandomK final : public Compressor {
 public:
  size_t message_bytes(size_t count, const Occasion& occasion) const override;
  void encode(std::span<const float> values, const Occasion& occasion,
              std::span<std::byte> message) const override;
  void add(std::span<const std::byte> message, const Occasion& occasion, float sign,
           std::span<float> into) const override;
};

}  // namespace dlflow::runtime
