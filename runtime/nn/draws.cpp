#include "runtime/nn/draws.h"

#include <algorithm>

#include "base/random.h"

namespace dlflow::runtime {
namespace {

/// FNV-1a
uint64_t hash(const std::string& text) {
  uint64_t value = 0xCBF29CE484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return value;
}

}  // namespace

/// A stream has two numbers beside the seed; the epoch and the layer make a seed of their own.
LayerDraws::LayerDraws(const Draws& draws, const std::string& layer) {
  const uint64_t name = hash(layer);
  const auto words = philox(
      {uint32_t(draws.epoch), uint32_t(RandomUse::Dropout), uint32_t(name), uint32_t(name >> 32)},
      {uint32_t(draws.seed), uint32_t(draws.seed >> 32)});
  key_ = words[0] | uint64_t(words[1]) << 32;
}

void LayerDraws::draw(uint32_t sample, double rate, std::span<uint8_t> keeps) const {
  const auto limit = uint32_t(rate * 0x1p32);
  for (size_t first = 0; first < keeps.size(); first += 4) {
    const auto words = philox({uint32_t(first / 4), uint32_t(RandomUse::Dropout), sample, 0},
                              {uint32_t(key_), uint32_t(key_ >> 32)});
    const size_t count = std::min<size_t>(4, keeps.size() - first);
    for (size_t i = 0; i < count; ++i) keeps[first + i] = words[i] >= limit ? 1 : 0;
  }
}

}  // namespace dlflow::runtime
