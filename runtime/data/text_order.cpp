#include "runtime/data/text_order.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace dlflow::runtime {
namespace {

/// Sorts the texts of a window, and shuffles its blocks.
void group_window(const Dataset& dataset, std::span<uint32_t> window, size_t block,
                  RandomStream& random) {
  std::vector<std::pair<size_t, uint32_t>> sorted;  // length, sample
  for (const uint32_t sample : window) sorted.emplace_back(dataset.length_of(sample), sample);
  std::ranges::stable_sort(sorted, {}, [](const auto& text) { return text.first; });
  std::vector<size_t> blocks(window.size() / block);
  std::iota(blocks.begin(), blocks.end(), size_t{0});
  for (size_t i = blocks.size(); i > 1; --i) {
    std::swap(blocks[i - 1], blocks[random.below(uint32_t(i))]);
  }
  for (size_t i = 0; i < window.size(); ++i) {
    window[i] = sorted[blocks[i / block] * block + i % block].second;
  }
}

}  // namespace

void group_by_length(const Dataset& dataset, std::span<uint32_t> order, size_t block, uint64_t seed,
                     uint64_t epoch) {
  DLFLOW_CHECK(block > 0);
  RandomStream random(seed, RandomUse::Grouping, uint32_t(epoch));
  const size_t whole = order.size() / block * block;
  for (size_t first = 0; first < whole; first += block * kBlocksPerWindow) {
    const size_t count = std::min(block * kBlocksPerWindow, whole - first);
    group_window(dataset, order.subspan(first, count), block, random);
  }
}

size_t padded_length(size_t longest, size_t most) {
  const size_t step = (most + 7) / 8;
  return std::min(std::max<size_t>((longest + step - 1) / step * step, 2), most);
}

}  // namespace dlflow::runtime
