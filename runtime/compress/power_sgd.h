#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/collectives/link.h"

namespace dlflow::runtime {

/// A parameter as a matrix, however its numbers lie in memory: number (r, c) at
/// first + rows[r] + columns[c] of a flat buffer. So blocked layouts can be told, too.
struct Matrix {
  size_t first = 0;
  std::vector<uint32_t> rows, columns;

  size_t size() const { return rows.size() * columns.size(); }
};

/// Sends gradients as products of two thin matrices, left times right, found by one step of
/// subspace iteration: sums over ranks of the left ones, then of the right ones, in which the next
/// step begins. What a rank's own product leaves out of its gradient is sent later.
/// Source: Vogels, Karimireddy and Jaggi, "PowerSGD", NeurIPS 2019.
class PowerSgd {
 public:
  /// Of rank `rank`, or less where a matrix has no more rows or columns.
  PowerSgd(std::vector<Matrix> matrices, size_t rank, uint64_t seed);

  /// For the matrices that lie in the range of a flat buffer that begins at `first`: adds them to
  /// `error`, which has the same range, leaves there what this rank does not send, and replaces
  /// them in `values` by the sum over the ranks of `link` of what they send; the same bits on all.
  /// Two all-reduces; together rank * (rows + columns) numbers of each matrix. The arguments must
  /// outlive the task. Collective.
  Task sum(Link link, size_t first, std::span<float> values, std::span<float> error, uint64_t step);

  /// The right factors of the last step, one column after the other, of all matrices: the same on
  /// all ranks; where the next step begins. Zeros where it is to begin anew.
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

}  // namespace dlflow::runtime
