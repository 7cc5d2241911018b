#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/vector_clones.h"
#include "runtime/compress/methods.h"

namespace dlflow::runtime {
namespace {

constexpr float kLargest = 127;

size_t num_blocks(size_t count) { return (count + kInt8Block - 1) / kInt8Block; }

DLFLOW_VECTOR_CLONES
void encode_block(const float* __restrict values, size_t count, float* __restrict scale,
                  int8_t* __restrict numbers) {
  uint32_t greatest = 0;
  for (size_t i = 0; i < count; ++i) {
    greatest = std::max(greatest, std::bit_cast<uint32_t>(values[i]) & 0x7fffffff);
  }
  const bool is_finite = greatest < 0x7f800000;
  *scale = is_finite ? std::bit_cast<float>(greatest) / kLargest
                     : std::numeric_limits<float>::quiet_NaN();
  // If the scale is so small that its inverse overflows, all of the block is sent later.
  const float inverse = 1 / *scale;
  const float factor = inverse <= std::numeric_limits<float>::max() ? inverse : 0;
  for (size_t i = 0; i < count; ++i) {
    const float scaled = is_finite ? values[i] * factor : 0;
    numbers[i] = int8_t(std::clamp(std::nearbyint(scaled), -kLargest, kLargest));
  }
}

DLFLOW_VECTOR_CLONES
void add_block(float* __restrict into, const int8_t* __restrict numbers, size_t count,
               float scale) {
  for (size_t i = 0; i < count; ++i) into[i] += scale * float(numbers[i]);
}

class Int8 final : public Compressor {
 public:
  size_t message_bytes(size_t count, const Occasion&) const override {
    const size_t bytes = num_blocks(count) * sizeof(float) + count;
    return (bytes + sizeof(float) - 1) / sizeof(float) * sizeof(float);  // aligns the next message
  }

  void encode(std::span<const float> values, const Occasion&,
              std::span<std::byte> message) const override {
    const size_t blocks = num_blocks(values.size());
    auto* const scales = reinterpret_cast<float*>(message.data());
    auto* const numbers = reinterpret_cast<int8_t*>(scales + blocks);
    std::fill(numbers + values.size(), reinterpret_cast<int8_t*>(message.data() + message.size()),
              int8_t(0));
    for (size_t block = 0; block < blocks; ++block) {
      const size_t first = block * kInt8Block, count = std::min(kInt8Block, values.size() - first);
      encode_block(values.data() + first, count, scales + block, numbers + first);
    }
  }

  void add(std::span<const std::byte> message, const Occasion&, float sign,
           std::span<float> into) const override {
    const size_t blocks = num_blocks(into.size());
    const auto* const scales = reinterpret_cast<const float*>(message.data());
    const auto* const numbers = reinterpret_cast<const int8_t*>(scales + blocks);
    for (size_t block = 0; block < blocks; ++block) {
      const size_t first = block * kInt8Block, count = std::min(kInt8Block, into.size() - first);
      add_block(into.data() + first, numbers + first, count, sign * scales[block]);
    }
  }
};

}  // namespace

std::unique_ptr<Compressor> make_int8() { return std::make_unique<Int8>(); }

}  // namespace dlflow::runtime
