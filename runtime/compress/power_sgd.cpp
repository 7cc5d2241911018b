#include "runtime/compress/power_sgd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/random.h"
#include "base/vector_clones.h"
#include "runtime/compress/message_sum.h"

namespace dlflow::runtime {
namespace {

DLFLOW_VECTOR_CLONES
void add_multiple(float* __restrict into, const float* __restrict values, size_t count,
                  float factor) {
  for (size_t i = 0; i < count; ++i) into[i] += factor * values[i];
}

/// Adds in the same order on every processor.
DLFLOW_VECTOR_CLONES
float product(const float* a, const float* b, size_t count) {
  constexpr size_t kLanes = 16;
  float sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < count; ++i) sums[0] += a[i] * b[i];
  float sum = 0;
  for (const float lane : sums) sum += lane;
  return sum;
}

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

/// A row-major matrix, and the factors of rank k that approximate it.
struct Factored {
  const Matrix* matrix;
  std::vector<float> numbers;    // (rows, columns)
  std::span<float> left, right;  // (k, rows), (k, columns)
  size_t rows() const { return matrix->rows.size(); }
  size_t columns() const { return matrix->columns.size(); }
  size_t rank() const { return left.size() / rows(); }
  float* row(size_t r) { return numbers.data() + r * columns(); }
};

/// Calls `use(number, place)` for each number and its place in a range that begins at `first`.
template <typename Use>
void for_each_place(Factored& f, size_t first, Use use) {
  for (size_t r = 0; r < f.rows(); ++r) {
    const size_t base = f.matrix->first - first + f.matrix->rows[r];
    for (size_t c = 0; c < f.columns(); ++c) use(f.row(r)[c], base + f.matrix->columns[c]);
  }
}

/// left = numbers * right
void project_left(Factored& f) {
  for (size_t k = 0; k < f.rank(); ++k) {
    for (size_t r = 0; r < f.rows(); ++r) {
      f.left[k * f.rows() + r] = product(f.row(r), f.right.data() + k * f.columns(), f.columns());
    }
  }
}

/// right = numbers^T * left
void project_right(Factored& f) {
  std::ranges::fill(f.right, 0.0f);
  for (size_t r = 0; r < f.rows(); ++r) {
    for (size_t k = 0; k < f.rank(); ++k) {
      add_multiple(f.right.data() + k * f.columns(), f.row(r), f.columns(),
                   f.left[k * f.rows() + r]);
    }
  }
}

/// numbers += sign * left * right^T
void add_product(Factored& f, float sign) {
  for (size_t r = 0; r < f.rows(); ++r) {
    for (size_t k = 0; k < f.rank(); ++k) {
      add_multiple(f.row(r), f.right.data() + k * f.columns(), f.columns(),
                   sign * f.left[k * f.rows() + r]);
    }
  }
}

}  // namespace

PowerSgd::PowerSgd(std::vector<Matrix> matrices, size_t rank, uint64_t seed)
    : matrices_(std::move(matrices)), rank_(rank), seed_(seed) {
  size_t offset = 0;
  for (size_t i = 0; i < matrices_.size(); ++i) {
    right_offsets_.push_back(offset);
    offset += rank_of(i) * matrices_[i].columns.size();
  }
  right_.resize(offset);
}

size_t PowerSgd::rank_of(size_t matrix) const {
  const Matrix& m = matrices_[matrix];
  return std::min({rank_, m.rows.size(), m.columns.size()});
}

std::span<float> PowerSgd::right(size_t matrix) {
  return std::span(right_).subspan(right_offsets_[matrix],
                                   rank_of(matrix) * matrices_[matrix].columns.size());
}

/// Replaces zero columns by random ones; otherwise they would stay zero for ever.
void PowerSgd::begin_anew_where_zero(size_t matrix, uint64_t step) {
  const size_t columns = matrices_[matrix].columns.size();
  const std::span<float> all = right(matrix);
  RandomStream random(seed_, RandomUse::Compression, uint32_t(step), uint32_t(matrix));
  for (size_t first = 0; first < all.size(); first += columns) {
    const std::span<float> column = all.subspan(first, columns);
    if (std::ranges::any_of(column, [](float value) { return value != 0; })) continue;
    for (float& value : column) value = random.uniform() - 0.5f;
  }
}

Task PowerSgd::sum(Link link, size_t first, std::span<float> values, std::span<float> error,
                   uint64_t step) {
  std::vector<Factored> all;
  size_t left_size = 0, right_size = 0, right_begin = right_.size();
  for (size_t i = 0; i < matrices_.size(); ++i) {
    const Matrix& matrix = matrices_[i];
    if (matrix.first < first || matrix.first >= first + values.size()) continue;
    begin_anew_where_zero(i, step);
    all.push_back({&matrix, std::vector<float>(matrix.size()), {}, right(i)});
    left_size += rank_of(i) * matrix.rows.size();
    right_size += all.back().right.size();
    right_begin = std::min(right_begin, right_offsets_[i]);
  }
  std::vector<float> left(left_size);
  size_t left_end = 0;
  for (Factored& f : all) {
    const size_t size = f.right.size() / f.columns() * f.rows();
    f.left = std::span(left).subspan(left_end, size);
    left_end += size;
    for_each_place(f, first,
                   [&](float& number, size_t place) { number = values[place] + error[place]; });
    project_left(f);
  }
  co_await dense_sum(link, left);
  for (Factored& f : all) {
    orthogonalize(f.left, f.rows());
    project_right(f);
    add_product(f, -1);
    for_each_place(f, first, [&](float& number, size_t place) { error[place] = number; });
  }
  co_await dense_sum(link, std::span(right_).subspan(right_begin, right_size));
  for (Factored& f : all) {
    std::ranges::fill(f.numbers, 0.0f);
    add_product(f, 1);
    for_each_place(f, first, [&](float& number, size_t place) { values[place] = number; });
  }
}

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
