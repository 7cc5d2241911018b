#pragma once

#include "runtime/compress/compressor.h"

namespace dlflow::runtime {

/// Sends every gradient as a whole number from -127 to 127, times a scale for each block of
/// kBlock neighbours, in which the largest is 127. With NaN or infinity in a block all of it is
/// NaN. A message is the scales, then the numbers.
class Int8 final : public Compressor {
 public:
  static constexpr size_t kBlock = 256;  ///< a scale for each costs 1.6 % of a message

  size_t message_bytes(size_t count, const Occasion& occasion) const override;
  void encode(std::span<const float> values, const Occasion& occasion,
              std::span<std::byte> message) const override;
  void add(std::span<const std::byte> message, const Occasion& occasion, float sign,
           std::span<float> into) const override;
};

}  // namespace dlflow::runtime
