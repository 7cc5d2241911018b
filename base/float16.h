#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/vector_clones.h"

/// fp16 (IEEE 754 binary16), for memory and the wire. Computations are in fp32. The conversion uses
/// integers, because the compiler does not vectorize _Float16's conversions.
namespace dlflow {

struct Float16 {
  uint16_t bits;
};

DLFLOW_INLINE float widen(Float16 value) {
  const uint32_t sign = uint32_t(value.bits & 0x8000) << 16, magnitude = value.bits & 0x7fff;
  // The exponent bias is 15, and 127 in fp32. A subnormal gets a leading 1, subtracted below.
  const bool is_subnormal = magnitude < 0x400, is_infinite = magnitude >= 0x7c00;
  const uint32_t exponent = is_subnormal ? 113u << 23 : is_infinite ? 224u << 23 : 112u << 23;
  const uint32_t leading = is_subnormal ? 113u << 23 : 0;
  const float number =
      std::bit_cast<float>((magnitude << 13) + exponent) - std::bit_cast<float>(leading);
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(number));
}

/// Rounds to nearest, ties to even; overflow gives infinity; NaN stays NaN.
DLFLOW_INLINE Float16 narrow_to_float16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  const uint32_t capped = std::min(magnitude, 0x47800000u);  // 2^16
  const uint32_t normal = (capped - (112u << 23) + 0xfff + (capped >> 13 & 1)) >> 13;
  // One unit in the last place of 0.5 is the smallest fp16: the addition rounds.
  const float half = std::bit_cast<float>(std::min(magnitude, 0x38800000u)) + 0.5f;
  const uint32_t subnormal = std::bit_cast<uint32_t>(half) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t number = magnitude < 0x38800000 ? subnormal : normal;  // 2^-14
  const uint32_t nan = 0x7e00 | (magnitude >> 13 & 0x3ff);
  return {uint16_t(sign | (magnitude > 0x7f800000 ? nan : number))};
}

}  // namespace dlflow
