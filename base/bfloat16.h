#pragma once

#include <bit>
#include <cstdint>

#include "base/vector_clones.h"

/// bf16: the upper half of an fp32, for memory and the wire. Computations are in fp32.
namespace dlflow {

struct BFloat16 {
  uint16_t bits;
};

DLFLOW_INLINE float widen(BFloat16 value) {
  return std::bit_cast<float>(uint32_t(value.bits) << 16);
}

/// Rounds to nearest, ties to even; NaN stays NaN.
DLFLOW_INLINE BFloat16 narrow(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  return {uint16_t((is_nan ? bits | 0x400000 : rounded) >> 16)};
}

}  // namespace dlflow
