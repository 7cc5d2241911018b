#pragma once

#include <cstdint>

namespace dlflow::runtime {

/// A matrix of which a row begins `stride` numbers after the one before.
struct ConstRows {
  const float* numbers;
  int64_t stride;
};
struct Rows {
  float* numbers;
  int64_t stride;
};

struct ProductExtent {
  int64_t rows, columns;  ///< of the result: multiples of 4 and of 16
  int64_t depth;          ///< numbers that each of the result's is a sum of
};

enum class Into { Replaced, Added };

/// Products of matrices that fit into a core's second cache, where the preparation of a general
/// product costs as much as what it gains: c (rows, columns) = a (rows, depth) b (depth, columns),
/// or added to what c has. Each number is added up in the order of `depth`, by fused multiply-adds
/// on every processor since 2013 (AVX2): its bits do not depend on the extent.
void multiply_block(const ProductExtent& extent, ConstRows a, ConstRows b, Into into, Rows c);

/// The same with the transpose of a (depth, rows).
void multiply_transposed_block(const ProductExtent& extent, ConstRows a, ConstRows b, Into into,
                               Rows c);

/// to (columns, rows) = from (rows, columns)'; rows and columns are multiples of 16.
void transpose_block(int64_t rows, int64_t columns, ConstRows from, Rows to);

}  // namespace dlflow::runtime
