#include "runtime/nn/draws.h"

#include <algorithm>

#include "base/random.h"
#include "runtime/nn/lanes.h"

namespace dlflow::runtime {

uint64_t name_hash(const std::string& name) {
  uint64_t value = 0xCBF29CE484222325;
  for (const char c : name) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return value;
}

/// A random stream has two numbers besides its seed, so epoch and layer are hashed into the seed.
LayerDraws::LayerDraws(const Draws& draws, const std::string& layer) {
  const uint64_t name = name_hash(layer);
  const auto words = philox(
      {uint32_t(draws.epoch), uint32_t(RandomUse::Dropout), uint32_t(name), uint32_t(name >> 32)},
      {uint32_t(draws.seed), uint32_t(draws.seed >> 32)});
  key_ = words[0] | uint64_t(words[1]) << 32;
}

namespace {

#if defined(__x86_64__)
using LongLanes [[gnu::vector_size(64)]] = uint64_t;

struct Products {
  WordLanes high, low;
};

DLFLOW_INLINE Products multiply(const WordLanes& words, uint64_t factor) {
  const auto pairs = LongLanes(words);
  const LongLanes lower = LongLanes{} + UINT32_MAX;
  const LongLanes even = (pairs & lower) * factor, odd = (pairs >> 32) * factor;
  return {WordLanes((even >> 32) | (odd & ~lower)), WordLanes((even & lower) | (odd << 32))};
}

/// Draws 64 numbers from the counter `first` as draw() does, with philox() of 16 counters at once.
/// On AVX2 this is slower than one counter at a time: GCC emits three multiplications for each.
__attribute__((target("avx512f"))) void draw_64(uint32_t first, uint32_t sample, uint64_t key,
                                                uint32_t limit, uint8_t* keeps) {
  WordLanes c0 = WordLanes{} + first, c1 = WordLanes{} + uint32_t(RandomUse::Dropout),
            c2 = WordLanes{} + sample, c3 = {};
  for (uint32_t i = 0; i < kLanes; ++i) c0[i] += i;
  auto k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const Products p0 = multiply(c0, 0xD2511F53), p1 = multiply(c2, 0xCD9E8D57);
    c0 = p1.high ^ c1 ^ k0;
    c1 = p1.low;
    c2 = p0.high ^ c3 ^ k1;
    c3 = p0.low;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  const WordLanes bytes = (WordLanes(c0 >= limit) & 1) | (WordLanes(c1 >= limit) & 1 << 8) |
                          (WordLanes(c2 >= limit) & 1 << 16) | (WordLanes(c3 >= limit) & 1 << 24);
  std::memcpy(keeps, &bytes, sizeof bytes);
}

/// Draws whole blocks of 64 numbers if the processor has AVX-512. Returns how many numbers it drew.
size_t draw_blocks(uint32_t sample, uint64_t key, uint32_t limit, std::span<uint8_t> keeps) {
  if (!has_avx512()) return 0;
  const size_t end = keeps.size() / 64 * 64;
  for (size_t i = 0; i < end; i += 64) draw_64(uint32_t(i / 4), sample, key, limit, &keeps[i]);
  return end;
}
#else
size_t draw_blocks(uint32_t, uint64_t, uint32_t, std::span<uint8_t>) { return 0; }
#endif

}  // namespace

void LayerDraws::draw(uint32_t sample, double rate, std::span<uint8_t> keeps) const {
  const auto limit = uint32_t(rate * 0x1p32);
  for (size_t first = draw_blocks(sample, key_, limit, keeps); first < keeps.size(); first += 4) {
    const auto words = philox({uint32_t(first / 4), uint32_t(RandomUse::Dropout), sample, 0},
                              {uint32_t(key_), uint32_t(key_ >> 32)});
    const size_t count = std::min<size_t>(4, keeps.size() - first);
    for (size_t i = 0; i < count; ++i) keeps[first + i] = words[i] >= limit ? 1 : 0;
  }
}

}  // namespace dlflow::runtime
