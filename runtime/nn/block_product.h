#pragma once

#include <cstdint>

namespace dlflow::runtime {

/// A matrix whose rows begin `stride` numbers apart.
template <typename T>
struct StridedView {
  T* numbers;
  int64_t stride;

  /// The part that begins there.
  StridedView at(int64_t row, int64_t column) const {
    return {numbers + row * stride + column, stride};
  }
};
using ConstMatrixView = StridedView<const float>;
using MatrixView = StridedView<float>;

struct ProductExtent {
  int64_t rows, columns;  ///< of the result: multiples of 4 and of 16
  int64_t depth;          ///< terms in the sum of each result
};

enum class Into { Replaced, Added };

/// Products of matrices that fit into a core's L2 cache, where the setup of a general product costs
/// as much as it gains: c (rows, columns) = a (rows, depth) b (depth, columns), optionally added to
/// c. Each number is summed in the order of `depth`, by fused multiply-adds on every processor
/// since 2013 (AVX2), so its bits do not depend on the extent.
void multiply_block(const ProductExtent& extent, ConstMatrixView a, ConstMatrixView b, Into into,
                    MatrixView c);

/// The same with the transpose of a (depth, rows).
void multiply_transposed_block(const ProductExtent& extent, ConstMatrixView a, ConstMatrixView b,
                               Into into, MatrixView c);

/// to (columns, rows) = from (rows, columns)'; rows and columns are multiples of 16.
void transpose_block(int64_t rows, int64_t columns, ConstMatrixView from, MatrixView to);

}  // namespace dlflow::runtime
