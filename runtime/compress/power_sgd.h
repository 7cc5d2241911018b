#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/collectives/link.h"

namespace dlflow::runtime {

/// A parameter as a matrix, regardless of its memory layout: number (r, c) lies at first + rows[r]
/// + columns[c] of a flat buffer. This covers blocked layouts, too.
struct Matrix {
  size_t first = 0;
  std::vector<uint32_t> rows, columns;

  size_t size() const { return rows.size() * columns.size(); }
};

/// Sends gradients as products of two thin matrices, left times right, found by one step of
/// subspace iteration: it sums the left ones over ranks, then the right ones, from which the next
/// step starts. Each rank sends the error of its own product later.
/// Source: Vogels, Karimireddy and Jaggi, "PowerSGD", NeurIPS 2019.
class PowerSgd {
 public:
  /// The rank is reduced for matrices with fewer rows or columns.
  PowerSgd(std::vector<Matrix> matrices, size_t rank, uint64_t seed);

  /// For the matrices in the range of a flat buffer that begins at `first`: adds their `values` to
  /// `error`, which has the same range, leaves the unsent part there, and replaces `values` by the
  /// sum over the ranks of `link` of the sent parts; the same bits on all. Two all-reduces;
  /// together rank * (rows + columns) numbers of each matrix. The arguments must outlive the task.
  /// Collective.
  Task sum(Link link, size_t first, std::span<float> values, std::span<float> error, uint64_t step);

  /// The right factors of the last step, one column after the other, of all matrices; the same on
  /// all ranks. The next step starts from them; zero columns start anew.
  std::span<float> right() { return right_; }
  const std::vector<Matrix>& matrices() const { return matrices_; }

 private:
  size_t rank_of(size_t matrix) const;
  std::span<float> right(size_t matrix);
  void begin_anew_where_zero(size_t matrix, uint64_t step);

  std::vector<Matrix> matrices_;
  size_t rank_;
  uint64_t seed_;
  std::vector<size_t> right_offsets_;
  std::vector<float> right_;
};

/// Makes the columns of a matrix orthonormal by modified Gram-Schmidt, one after the other, in
/// double precision; a linearly dependent column becomes zero. Equal bits give equal bits.
/// \param columns  (num_columns, rows), one column after the other.
void orthogonalize(std::span<float> columns, size_t rows);

}  // namespace dlflow::runtime
