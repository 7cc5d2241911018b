#pragma once

#include "runtime/compress/compressor.h"

namespace dlflow::runtime {

/// Writes to `indices` (at most values.size() of them) where the largest of `values` are, without
/// regard to their sign; ascending. NaN is larger than infinity, and that than all else; of equals
/// the first are taken.
///
/// No sort: a histogram over exponents and the first bits of mantissas finds the bin in which the
/// smallest that is taken lies, and only what is in that bin is compared. Three passes over
/// `values`.
void select_largest(std::span<const float> values, std::span<uint32_t> indices);

/// Sends the largest gradients and where they are: exactly those. Of a long range a sample tells
/// which few are looked at.
/// Source: Aji and Heafield, "Sparse communication for distributed gradient descent", EMNLP 2017.
class TopK final : public Compressor {
 public:
  size_t message_bytes(size_t count, const Occasion& occasion) const override;
  void encode(std::span<const float> values, const Occasion& occasion,
              std::span<std::byte> message) const override;
  void add(std::span<const std::byte> message, const Occasion& occasion, float sign,
           std::span<float> into) const override;
};

}  // namespace dlflow::runtime
