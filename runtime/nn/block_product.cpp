#include "runtime/nn/block_product.h"

#include <array>
#include <utility>

#include "base/vector_clones.h"
#include "runtime/nn/lanes.h"

namespace dlflow::runtime {
namespace {

constexpr int64_t kTileRows = 4;
/// Registers in a row of a wide tile, whose sums take 16 of AVX-512's 32 registers. A narrow tile
/// of 16 columns takes 8 of AVX2's 16.
constexpr int64_t kWide = 4;

/// Broadcasts the number at (row, i) of a and multiplies it by row i of b.
template <typename R, int64_t Columns, bool Transposed>
DLFLOW_INLINE void multiply_tile(int64_t depth, ConstMatrixView a, ConstMatrixView b, Into into,
                                 MatrixView c) {
  constexpr int64_t kStep = kWidth<R>;
  std::array<std::array<R, Columns>, kTileRows> sums = {};
  if (into == Into::Added) {
    for (int64_t r = 0; r < kTileRows; ++r) {
      for (int64_t n = 0; n < Columns; ++n) {
        sums[size_t(r)][size_t(n)] = load<true, R>(c.numbers + r * c.stride + n * kStep, kStep);
      }
    }
  }
  for (int64_t i = 0; i < depth; ++i) {
    for (int64_t r = 0; r < kTileRows; ++r) {
      const R factor = broadcast<R>(a.numbers[Transposed ? i * a.stride + r : r * a.stride + i]);
      for (int64_t n = 0; n < Columns; ++n) {
        sums[size_t(r)][size_t(n)] +=
            factor * load<true, R>(b.numbers + i * b.stride + n * kStep, kStep);
      }
    }
  }
  for (int64_t r = 0; r < kTileRows; ++r) {
    for (int64_t n = 0; n < Columns; ++n) {
      store<true>(c.numbers + r * c.stride + n * kStep, sums[size_t(r)][size_t(n)], kStep);
    }
  }
}

/// Computes the tiles of one column, whose part of b stays in the L1 cache.
template <typename R, int64_t Columns, bool Transposed>
DLFLOW_INLINE void multiply_column(const ProductExtent& extent, ConstMatrixView a,
                                   ConstMatrixView b, Into into, MatrixView c) {
  for (int64_t row = 0; row < extent.rows; row += kTileRows) {
    multiply_tile<R, Columns, Transposed>(extent.depth, Transposed ? a.at(0, row) : a.at(row, 0), b,
                                          into, c.at(row, 0));
  }
}

template <typename R, bool Transposed>
DLFLOW_INLINE void multiply(const ProductExtent& extent, ConstMatrixView a, ConstMatrixView b,
                            Into into, MatrixView c) {
  constexpr int64_t kColumns = kWide * kLanes;
  int64_t column = 0;
  if constexpr (kRegisters<R> == 1) {
    for (; column + kColumns <= extent.columns; column += kColumns) {
      multiply_column<R, kWide, Transposed>(extent, a, b.at(0, column), into, c.at(0, column));
    }
  }
  for (; column < extent.columns; column += kLanes) {
    multiply_column<R, kRegisters<R>, Transposed>(extent, a, b.at(0, column), into,
                                                  c.at(0, column));
  }
}

using Square = std::array<Lanes, kLanes>;

/// Swaps the two off-diagonal quadrants of each square of 2 * Distance rows and columns.
template <int Distance, int... Lane>
DLFLOW_INLINE void exchange(Square& square, std::integer_sequence<int, Lane...>) {
  for (size_t i = 0; i < kLanes; ++i) {
    if ((i & size_t(Distance)) != 0) continue;
    const Lanes a = square[i], b = square[i + size_t(Distance)];
    square[i] = __builtin_shufflevector(
        a, b, ((Lane & Distance) != 0 ? int(kLanes) + Lane - Distance : Lane)...);
    square[i + size_t(Distance)] = __builtin_shufflevector(
        a, b, ((Lane & Distance) != 0 ? int(kLanes) + Lane : Lane + Distance)...);
  }
}

template <int Distance>
DLFLOW_INLINE void exchange(Square& square) {
  exchange<Distance>(square, std::make_integer_sequence<int, int(kLanes)>());
}

}  // namespace

void multiply_block(const ProductExtent& extent, ConstMatrixView a, ConstMatrixView b, Into into,
                    MatrixView c) {
  run_for_this_cpu([=]<typename R>(R) __attribute__((always_inline)) {
    multiply<R, false>(extent, a, b, into, c);
  });
}

void multiply_transposed_block(const ProductExtent& extent, ConstMatrixView a, ConstMatrixView b,
                               Into into, MatrixView c) {
  run_for_this_cpu([=]<typename R>(R) __attribute__((always_inline)) {
    multiply<R, true>(extent, a, b, into, c);
  });
}

DLFLOW_VECTOR_CLONES
void transpose_block(int64_t rows, int64_t columns, ConstMatrixView from, MatrixView to) {
  Square square;
  for (int64_t row = 0; row < rows; row += kLanes) {
    for (int64_t column = 0; column < columns; column += kLanes) {
      for (int64_t i = 0; i < kLanes; ++i) {
        square[size_t(i)] = load<true>(from.numbers + (row + i) * from.stride + column, kLanes);
      }
      exchange<8>(square);
      exchange<4>(square);
      exchange<2>(square);
      exchange<1>(square);
      for (int64_t i = 0; i < kLanes; ++i) {
        store<true>(to.numbers + (column + i) * to.stride + row, square[size_t(i)], kLanes);
      }
    }
  }
}

}  // namespace dlflow::runtime
