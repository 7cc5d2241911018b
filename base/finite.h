#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "base/vector_clones.h"

/// Whether all of many floats are finite. Computed as a maximum over their bits, which CPUs can
/// vectorize.
namespace dlflow {

/// The maximum of `greatest` and the bits of `x` without its sign.
DLFLOW_INLINE uint32_t greatest_bits(uint32_t greatest, float x) {
  return std::max(greatest, std::bit_cast<uint32_t>(x) & 0x7FFFFFFF);
}

inline bool all_finite(uint32_t greatest) {
  return greatest < std::bit_cast<uint32_t>(std::numeric_limits<float>::infinity());
}

}  // namespace dlflow
