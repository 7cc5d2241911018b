#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/vector_clones.h"
#include "runtime/collectives/vector_ops.h"
#include "runtime/compress/methods.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kBlock = 1024;  // stays in the first-level cache

/// Clamps finite numbers to the type's range; infinity and NaN remain.
DLFLOW_VECTOR_CLONES
void saturate(const float* __restrict values, float* __restrict saturated, size_t count,
              float largest) {
  for (size_t i = 0; i < count; ++i) {
    const float magnitude = std::fabs(values[i]);
    const bool is_finite = magnitude <= std::numeric_limits<float>::max();
    const float bounded = std::copysign(std::min(magnitude, largest), values[i]);
    saturated[i] = is_finite ? bounded : values[i];
  }
}

DLFLOW_VECTOR_CLONES
void add_scaled(float* __restrict into, const float* __restrict values, size_t count, float sign) {
  for (size_t i = 0; i < count; ++i) into[i] += sign * values[i];
}

/// The largest finite number of the type.
float largest_of(DataType type) { return type == DataType::Float16 ? 65504.0f : 0x1.FEp127f; }

class Half final : public Compressor {
 public:
  explicit Half(DataType type) : type_(type) {}

  size_t message_bytes(size_t count, const Occasion&) const override {
    return count * size_of(type_);
  }

  void encode(std::span<const float> values, const Occasion&,
              std::span<std::byte> message) const override {
    const Values halves(message.data(), values.size(), type_);
    alignas(64) std::array<float, kBlock> block;
    for (size_t first = 0; first < values.size(); first += kBlock) {
      const size_t count = std::min(kBlock, values.size() - first);
      saturate(values.data() + first, block.data(), count, largest_of(type_));
      convert(halves.subrange(first, count), std::span(block).first(count));
    }
  }

  void add(std::span<const std::byte> message, const Occasion&, float sign,
           std::span<float> into) const override {
    const Values halves(const_cast<std::byte*>(message.data()), into.size(), type_);  // only read
    alignas(64) std::array<float, kBlock> block;
    for (size_t first = 0; first < into.size(); first += kBlock) {
      const size_t count = std::min(kBlock, into.size() - first);
      convert(std::span(block).first(count), halves.subrange(first, count));
      add_scaled(into.data() + first, block.data(), count, sign);
    }
  }

 private:
  DataType type_;
};

}  // namespace

std::unique_ptr<Compressor> make_half(DataType type) { return std::make_unique<Half>(type); }

}  // namespace dlflow::runtime
