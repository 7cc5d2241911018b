#include "runtime/optim/average.h"

#include <cstddef>

#include "base/vector_clones.h"

namespace dlflow::runtime {
namespace {

DLFLOW_VECTOR_CLONES
void move(const float* __restrict values, float share, float* __restrict averaged, size_t count) {
  for (size_t i = 0; i < count; ++i) averaged[i] += share * (values[i] - averaged[i]);
}

}  // namespace

void move_average(std::span<const float> values, float share, std::span<float> averaged) {
  move(values.data(), share, averaged.data(), averaged.size());
}

}  // namespace dlflow::runtime
