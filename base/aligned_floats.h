#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace dlflow {

constexpr size_t kCacheLineBytes = 64;
constexpr size_t kLineElements = kCacheLineBytes / sizeof(float);

/// `num_elements` rounded up to whole cache lines, so that data after them starts at one, too.
constexpr size_t whole_lines(size_t num_elements) {
  return (num_elements + kLineElements - 1) / kLineElements * kLineElements;
}

struct AlignedFree {
  void operator()(float* values) const {
    ::operator delete[](values, std::align_val_t(kCacheLineBytes));
  }
};

/// Floats that start at a cache line, so that vectors of any width are loaded in one piece.
using AlignedFloats = std::unique_ptr<float[], AlignedFree>;

/// `count` zeros.
inline AlignedFloats make_aligned_floats(size_t count) {
  return AlignedFloats(new (std::align_val_t(kCacheLineBytes)) float[count]());
}

}  // namespace dlflow
