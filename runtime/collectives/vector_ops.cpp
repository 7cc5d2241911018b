#include "runtime/collectives/vector_ops.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/vector_clones.h"

namespace dlflow::runtime {
namespace {

// Two parts that are also the results, the most frequent case by far: one pass, every cache line
// touched once.
DLFLOW_VECTOR_CLONES
void sum_pair_in_place(float* __restrict a, float* __restrict b, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const float sum = a[i] + b[i];
    a[i] = sum;
    b[i] = sum;
  }
}

/// `sum` may be `a`.
DLFLOW_VECTOR_CLONES
void sum_of_arrays(const float* a, const float* b, float* sum, size_t count) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

DLFLOW_VECTOR_CLONES
void add_arrays(float* __restrict into, const float* __restrict values, size_t count) {
  for (size_t i = 0; i < count; ++i) into[i] += values[i];
}

}  // namespace

void add(std::span<float> into, std::span<const float> values) {
  add_arrays(into.data(), values.data(), into.size());
}

void sum_parts(std::span<const float* const> parts, std::span<const uint8_t> additions,
               std::span<float* const> results, size_t first, size_t count) {
  if (parts.size() == 2 && results.size() == 2 && parts[0] == results[0] &&
      parts[1] == results[1]) {
    return sum_pair_in_place(results[0] + first, results[1] + first, count);
  }
  constexpr size_t kBlock = 512, kHeight = 32;
  alignas(64) float sums[kHeight][kBlock];  // the lower ones stay in the first-level cache
  std::array<const float*, kHeight> stack;
  for (const size_t end = first + count; first < end; first += kBlock) {
    const size_t block = std::min(kBlock, end - first);
    size_t height = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      DLFLOW_CHECK(height < kHeight);
      stack[height++] = parts[i] + first;
      for (uint8_t n = additions[i]; n > 0; --n) {
        --height;
        sum_of_arrays(stack[height - 1], stack[height], sums[height - 1], block);
        stack[height - 1] = sums[height - 1];
      }
    }
    DLFLOW_CHECK(height == 1);
    for (float* result : results) std::memmove(result + first, stack[0], block * sizeof(float));
  }
}

}  // namespace dlflow::runtime
