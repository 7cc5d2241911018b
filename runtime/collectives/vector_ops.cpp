#include "runtime/collectives/vector_ops.h"

#include <algorithm>
#include <cstring>

#include "base/vector_clones.h"

namespace dlflow::runtime {
namespace {

// Two ranks, the most frequent case by far: one pass, every cache line touched once.
DLFLOW_VECTOR_CLONES
void sum_pair_in_place(float* __restrict a, float* __restrict b, size_t count, float factor) {
  for (size_t i = 0; i < count; ++i) {
    const float sum = (a[i] + b[i]) * factor;
    a[i] = sum;
    b[i] = sum;
  }
}

DLFLOW_VECTOR_CLONES
void add_arrays(float* __restrict into, const float* __restrict values, size_t count) {
  for (size_t i = 0; i < count; ++i) into[i] += values[i];
}

DLFLOW_VECTOR_CLONES
void scale_array(float* values, size_t count, float factor) {
  for (size_t i = 0; i < count; ++i) values[i] *= factor;
}

}  // namespace

void add(std::span<float> into, std::span<const float> values) {
  add_arrays(into.data(), values.data(), into.size());
}

void scale(std::span<float> values, float factor) {
  if (factor != 1) scale_array(values.data(), values.size(), factor);
}

void sum_in_place(std::span<float* const> buffers, size_t first, size_t count, float factor) {
  if (buffers.size() == 1) return scale({buffers[0] + first, count}, factor);
  if (buffers.size() == 2) {
    return sum_pair_in_place(buffers[0] + first, buffers[1] + first, count, factor);
  }
  constexpr size_t kBlock = 1024;  // sums stay in the first-level cache
  alignas(64) float sums[kBlock];
  for (size_t end = first + count; first < end; first += kBlock) {
    const size_t block = std::min(kBlock, end - first);
    std::memcpy(sums, buffers[0] + first, block * sizeof(float));
    for (float* buffer : buffers.subspan(1)) add_arrays(sums, buffer + first, block);
    scale({sums, block}, factor);
    for (float* buffer : buffers) std::memcpy(buffer + first, sums, block * sizeof(float));
  }
}

}  // namespace dlflow::runtime
