#include "runtime/nn/outer_products.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "base/vector_clones.h"
#include "runtime/nn/lanes.h"

namespace dlflow::runtime {
namespace {

/// A tile takes 16 of AVX-512's 32 registers.
constexpr int64_t kTileRows = 4;
constexpr int64_t kTileColumns = OuterProducts::kColumns;
constexpr size_t kTileLanes = kTileColumns / kLanes;
using Tile = std::array<std::array<Lanes, kTileLanes>, kTileRows>;

/// At most 2 lg n + 1 of n consecutive leaves are on the stack at a time.
constexpr size_t kHighest = 64;

/// Multiplies `of_rows` (samples, first 4 of kRows) by `of_columns` (samples, kColumns).
DLFLOW_INLINE Tile multiply(const float* of_rows, const float* of_columns, size_t samples) {
  Tile sums = {};
  for (size_t s = 0; s < samples; ++s) {
    for (size_t r = 0; r < kTileRows; ++r) {
      for (size_t c = 0; c < kTileLanes; ++c) {
        sums[r][c] += broadcast(of_rows[r]) * load<true>(of_columns + c * kLanes, kLanes);
      }
    }
    of_rows += OuterProducts::kRows;
    of_columns += kTileColumns;
  }
  return sums;
}

DLFLOW_INLINE void add(Tile& sum, const Tile& more) {
  for (size_t r = 0; r < kTileRows; ++r) {
    for (size_t c = 0; c < kTileLanes; ++c) sum[r][c] += more[r][c];
  }
}

DLFLOW_INLINE double sum_of_squares(const Tile& tile) {
  Lanes squares = {};
  for (const auto& row : tile) {
    for (const Lanes& lanes : row) squares += lanes * lanes;
  }
  double sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += double(squares[i]);
  return sum;
}

struct LeafSamples {
  std::span<const size_t> ends;
  std::span<const uint8_t> additions;
};

/// The kept factors of one weight, in panels.
struct Panels {
  const float *of_rows, *of_columns;
  int64_t max_samples;
};

/// A matrix (samples, columns).
struct SampleRows {
  const float* values;
  size_t samples;
  int64_t columns;
};

/// The gradient of a linear layer's weight over samples s is the sum of of_rows[s] x of_columns[s].
/// For leaves of few samples it is far larger than its factors: 4 samples of a layer of 1024 x 1024
/// are 32 KB, their gradient is 4 MB. Leaf by leaf, all of it would be written, read and added once
/// per leaf, at the speed of memory. So nothing is multiplied until all leaves of the rank are
/// there, and then each tile of 4 x 64 weights goes through all leaves at once:
///
///   for each tile: for each leaf: product of its samples, in 16 registers; add along the leaves'
///   tree; then write the remaining parts, once.
///
/// The bits depend on the leaves and their tree alone. Within a leaf, each weight adds its samples
/// in order, in a register of its own: neither the size of a tile nor the other leaves matter.
/// Between leaves it is the stack of Reducer (reduce/reducer.cpp), of tiles instead of gradients:
/// after leaf i, the two topmost are replaced by their sum, additions[i] times. A sum of two floats
/// has the same bits in either order; only the tree counts, which is the Reducer's.
///
/// Two layouts make the loop read memory sequentially. keep() splits its input into panels of kRows
/// and of kColumns numbers per sample; a panel of columns stays in the L1 cache while all rows pass
/// it. The gradient is written in oneDNN's blocks of `group` columns, so that it needs no
/// conversion. The squared lengths that the noise meter needs come from the registers, too.
///
/// Leaves the remaining parts of one tile on `stack`, from the bottom.
DLFLOW_INLINE void add_up_tile(const float* of_rows, const float* of_columns,
                               const LeafSamples& leaves, std::span<double> squares, Tile* stack) {
  size_t height = 0, first = 0;
  for (size_t leaf = 0; leaf < leaves.ends.size(); ++leaf) {
    const size_t end = leaves.ends[leaf];
    Tile tile = multiply(of_rows + first * size_t(OuterProducts::kRows),
                         of_columns + first * size_t(kTileColumns), end - first);
    first = end;
    if (!squares.empty()) squares[leaf] += sum_of_squares(tile);
    for (uint8_t n = leaves.additions[leaf]; n > 0; --n) add(tile, stack[--height]);
    stack[height++] = tile;
  }
}

DLFLOW_INLINE void write(const Tile& tile, float* to, int64_t stride) {
  for (size_t r = 0; r < kTileRows; ++r, to += stride) {
    for (size_t c = 0; c < kTileLanes; ++c) store<true>(to + c * kLanes, tile[r][c], kLanes);
  }
}

/// A tile's columns stay in the L1 cache while all rows pass.
DLFLOW_VECTOR_CLONES
void add_up_products(const ProductShape& shape, Panels panels, const LeafSamples& leaves,
                     std::span<float* const> parts, std::span<double> squares) {
  std::array<Tile, kHighest> stack;
  for (int64_t c = 0; c < shape.columns; c += kTileColumns) {
    for (int64_t r = 0; r < shape.rows; r += kTileRows) {
      const int64_t in_block = r % OuterProducts::kRows;
      add_up_tile(panels.of_rows + (r - in_block) * panels.max_samples + in_block,
                  panels.of_columns + c * panels.max_samples, leaves, squares, stack.data());
      const int64_t in_group = c % shape.group;
      const int64_t at = (c - in_group) * shape.rows + r * shape.group + in_group;
      for (size_t part = 0; part < parts.size(); ++part) {
        write(stack[part], parts[part] + at, shape.group);
      }
    }
  }
}

/// Copies `from` to (columns / width, max_samples, width).
void split_columns(const SampleRows& from, int64_t width, float* to, size_t max_samples) {
  for (int64_t c = 0; c < from.columns; c += width) {
    float* block = to + size_t(c) * max_samples;
    for (size_t s = 0; s < from.samples; ++s) {
      std::memcpy(block + s * size_t(width), from.values + int64_t(s) * from.columns + c,
                  size_t(width) * sizeof(float));
    }
  }
}

}  // namespace

OuterProducts::OuterProducts(std::span<const ProductShape> shapes, size_t max_samples,
                             std::vector<uint8_t> additions)
    : max_samples_(max_samples), additions_(std::move(additions)) {
  for (size_t leaf = 0, height = 0; leaf < additions_.size(); ++leaf) {
    DLFLOW_CHECK(height < kHighest && additions_[leaf] <= height);
    height = height + 1 - additions_[leaf];
  }
  for (const ProductShape& shape : shapes) {
    DLFLOW_CHECK(shape.rows % kRows == 0 && shape.columns % shape.group == 0);
    DLFLOW_CHECK(shape.group % kColumns == 0);
    factors_.emplace(shape.parameter, Factors{shape, HugeBuffer(size_t(shape.rows) * max_samples),
                                              HugeBuffer(size_t(shape.columns) * max_samples)});
  }
}

void OuterProducts::begin_leaf(size_t leaf, size_t samples) {
  if (leaf == 0) ends_.clear();
  DLFLOW_CHECK(leaf == ends_.size() && leaf < additions_.size());
  ends_.push_back((leaf == 0 ? 0 : ends_.back()) + samples);
  DLFLOW_CHECK(ends_.back() <= max_samples_);
}

void OuterProducts::keep(size_t parameter, const float* of_rows, const float* of_columns) {
  Factors& factors = factors_.at(parameter);
  const size_t first = ends_.size() == 1 ? 0 : ends_.end()[-2], count = ends_.back() - first;
  split_columns({of_rows, count, factors.shape.rows}, kRows,
                factors.of_rows.data() + first * size_t(kRows), max_samples_);
  split_columns({of_columns, count, factors.shape.columns}, kColumns,
                factors.of_columns.data() + first * size_t(kColumns), max_samples_);
}

void OuterProducts::add_up(size_t parameter, std::span<float* const> parts,
                           std::span<double> squares) const {
  DLFLOW_CHECK(ends_.size() == additions_.size());
  const Factors& factors = factors_.at(parameter);
  const Panels panels = {factors.of_rows.floats().data(), factors.of_columns.floats().data(),
                         int64_t(max_samples_)};
  add_up_products(factors.shape, panels, {ends_, additions_}, parts, squares);
}

}  // namespace dlflow::runtime
