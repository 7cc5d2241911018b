#pragma once

#include "runtime/comm/values.h"
#include "runtime/compress/compressor.h"

namespace dlflow::runtime {

/// Sends every gradient as fp16 or bf16, to the nearest, ties to even. A finite number beyond what
/// fp16 has becomes its largest; the rest of it is sent later, as what rounding leaves is.
class Half final : public Compressor {
 public:
  /// `type` is Float16 or BFloat16.
  explicit Half(DataType type) : type_(type) {}

  size_t message_bytes(size_t count, const Occasion& occasion) const override;
  void encode(std::span<const float> values, const Occasion& occasion,
              std::span<std::byte> message) const override;
  void add(std::span<const std::byte> message, const Occasion& occasion, float sign,
           std::span<float> into) const override;

 private:
  DataType type_;
};

}  // namespace dlflow::runtime
