#include "runtime/compress/orthogonalize.h"

#include <array>
#include <cmath>

#include "base/vector_clones.h"

namespace dlflow::runtime {
namespace {

/// Adds in the same order on every processor.
DLFLOW_VECTOR_CLONES
double exact_product(const float* a, const float* b, size_t count) {
  constexpr size_t kLanes = 16;
  std::array<double, kLanes> sums{};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += double(a[i + lane]) * double(b[i + lane]);
    }
  }
  for (; i < count; ++i) sums[0] += double(a[i]) * double(b[i]);
  double sum = 0;
  for (const double lane : sums) sum += lane;
  return sum;
}

}  // namespace

void orthogonalize(std::span<float> columns, size_t rows) {
  constexpr double kRounding = 1e-5;  // in fp32: a smaller remainder of a column is rounding error
  for (size_t first = 0; first < columns.size(); first += rows) {
    float* const column = columns.data() + first;
    const double before = std::sqrt(exact_product(column, column, rows));
    for (size_t other = 0; other < first; other += rows) {
      const float* const unit = columns.data() + other;
      const auto along = float(exact_product(unit, column, rows));
      for (size_t i = 0; i < rows; ++i) column[i] -= along * unit[i];
    }
    const double after = std::sqrt(exact_product(column, column, rows));
    const float scale = after <= kRounding * before ? 0 : float(1 / after);
    for (size_t i = 0; i < rows; ++i) column[i] *= scale;
  }
}

}  // namespace dlflow::runtime
