#include "runtime/optim/blocks.h"

#include <algorithm>

#include "base/vector_clones.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kBlockElements = 16384;
constexpr size_t kLanes = 16;

/// Adds the square of each value to lane (index % kLanes); `count` is a multiple of kLanes.
DLFLOW_VECTOR_CLONES
void add_squares(const float* values, size_t count, double* lanes) {
  for (size_t i = 0; i < count; i += kLanes) {
    for (size_t k = 0; k < kLanes; ++k) lanes[k] += double(values[i + k]) * double(values[i + k]);
  }
}

}  // namespace

std::vector<Block> make_blocks(std::span<const LayerSlot> layers) {
  std::vector<Block> blocks;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const size_t end = layers[layer].first + layers[layer].count;
    for (size_t first = layers[layer].first; first < end; first += kBlockElements) {
      blocks.push_back({layer, first, std::min(kBlockElements, end - first)});
    }
  }
  return blocks;
}

std::vector<size_t> share_out(std::span<const Block> blocks, size_t shares) {
  size_t all = 0;
  for (const Block& block : blocks) all += block.count;
  std::vector<size_t> begins;
  size_t before = 0, next = 0;  // `before`: elements of the blocks before `next`
  for (size_t share = 0; share < shares; ++share) {
    // A block belongs to the share that contains its middle.
    while (next < blocks.size() && (2 * before + blocks[next].count) * shares < 2 * all * share) {
      before += blocks[next++].count;
    }
    begins.push_back(next);
  }
  begins.push_back(blocks.size());
  return begins;
}

double sum_of_squares(std::span<const float> values) {
  double lanes[kLanes] = {};
  const size_t whole = values.size() / kLanes * kLanes;
  add_squares(values.data(), whole, lanes);
  for (size_t i = whole; i < values.size(); ++i) {
    lanes[i - whole] += double(values[i]) * double(values[i]);
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace dlflow::runtime
