#include "runtime/nn/linear_kernel.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/vector_clones.h"
#include "runtime/nn/lanes.h"

namespace dlflow::runtime {
namespace {

/// A tile of dx for 16 rows and 16 samples: one register per row, one lane per sample.
constexpr int64_t kTileRows = kLanes;
using Tile = std::array<Lanes, kTileRows>;
static_assert(OuterProducts::kRows % kTileRows == 0);

/// Adds the contribution of `Group` columns: `weight` (kTileRows, Group), `dy` (Group, kLanes).
/// Prefetches the next tile's weights: the rows are too far apart for the hardware prefetcher.
template <int64_t Group>
DLFLOW_INLINE void add_columns(const float* weight, const float* dy, Tile& sums) {
  for (int64_t c = 0; c < Group; ++c) {
    __builtin_prefetch(weight + kTileRows * Group + c * kTileRows);
    const Lanes gradient = load<true>(dy + c * kLanes, kLanes);
    for (int64_t r = 0; r < kTileRows; ++r) {
      sums[size_t(r)] += broadcast(weight[r * Group + c]) * gradient;
    }
  }
}

/// Moves lane i of register j to lane j of register i. Each of four steps interleaves registers i
/// and i + 8, which moves one bit of the register index into the lane index.
DLFLOW_INLINE void transpose(Tile& tile) {
  for (int turn = 0; turn < 4; ++turn) {
    const Tile before = tile;
    for (size_t i = 0; i < kTileRows / 2; ++i) {
      tile[2 * i] = interleave_lower(before[i], before[i + kTileRows / 2]);
      tile[2 * i + 1] = interleave_upper(before[i], before[i + kTileRows / 2]);
    }
  }
}

/// Only the first `samples` lanes of `dy` (columns, kLanes) count.
template <int64_t Group>
DLFLOW_INLINE void multiply(const ProductShape& shape, const float* weight, const float* dy,
                            int64_t samples, float* dx) {
  for (int64_t row = 0; row < shape.rows; row += kTileRows) {
    Tile sums = {};
    for (int64_t column = 0; column < shape.columns; column += Group) {
      add_columns<Group>(weight + column * shape.rows + row * Group, dy + column * kLanes, sums);
    }
    transpose(sums);
    for (int64_t s = 0; s < samples; ++s) {
      store<true>(dx + s * shape.rows + row, sums[size_t(s)], kLanes);
    }
  }
}

DLFLOW_VECTOR_CLONES
void multiply_by_64(const ProductShape& shape, const float* weight, const float* dy,
                    int64_t samples, float* dx) {
  multiply<64>(shape, weight, dy, samples, dx);
}

DLFLOW_VECTOR_CLONES
void multiply_by_128(const ProductShape& shape, const float* weight, const float* dy,
                     int64_t samples, float* dx) {
  multiply<128>(shape, weight, dy, samples, dx);
}

/// Copies (samples, columns) to (columns, kLanes); lanes without a sample are 0.
void put_into_lanes(const float* dy, int64_t samples, int64_t columns, float* lanes) {
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t s = 0; s < kLanes; ++s) {
      lanes[c * kLanes + s] = s < samples ? dy[s * columns + c] : 0;
    }
  }
}

}  // namespace

bool has_linear_backward_data(const ProductShape& shape, int64_t samples) {
  return (shape.group == 64 || shape.group == 128) && samples > kLanes / 2 && samples <= 2 * kLanes;
}

void linear_backward_data(const ProductShape& shape, const float* weight, const float* dy,
                          int64_t samples, float* dx) {
  DLFLOW_CHECK(shape.rows % kTileRows == 0 && shape.columns % shape.group == 0);
  DLFLOW_CHECK(shape.group == 64 || shape.group == 128);
  const auto multiply = shape.group == 64 ? multiply_by_64 : multiply_by_128;
  std::vector<float> lanes(size_t(shape.columns * kLanes));
  for (int64_t first = 0; first < samples; first += kLanes) {
    const int64_t count = std::min(kLanes, samples - first);
    put_into_lanes(dy + first * shape.columns, count, shape.columns, lanes.data());
    multiply(shape, weight, lanes.data(), count, dx + first * shape.rows);
  }
}

}  // namespace dlflow::runtime
