#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "runtime/compress/methods.h"
#include "runtime/compress/sparse_message.h"

namespace dlflow::runtime {
namespace {

/// Calls `use(i, index)` for each of the `sent` chosen numbers out of `count`, ascending.
template <typename Use>
void for_each_pick(size_t count, size_t sent, const Occasion& occasion, Use use) {
  RandomStream random(occasion.seed, RandomUse::Compression, uint32_t(occasion.step),
                      uint32_t(occasion.first));
  for (size_t i = 0; i < sent; ++i) {
    const size_t begin = i * count / sent, end = (i + 1) * count / sent;
    use(i, begin + random.below(uint32_t(end - begin)));
  }
}

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

class RandomK final : public Compressor {
 public:
  size_t message_bytes(size_t count, const Occasion& occasion) const override {
    return num_sent(count, occasion.density) * sizeof(float);
  }

  void encode(std::span<const float> values, const Occasion& occasion,
              std::span<std::byte> message) const override {
    auto* const sent = reinterpret_cast<float*>(message.data());
    for_each_pick(values.size(), message.size() / sizeof(float), occasion,
                  [&](size_t i, size_t index) { sent[i] = values[index]; });
    // A non-finite number is reported even if it was not chosen.
    if (!all_finite(values)) sent[0] = std::numeric_limits<float>::quiet_NaN();
  }

  void add(std::span<const std::byte> message, const Occasion& occasion, float sign,
           std::span<float> into) const override {
    const auto* const sent = reinterpret_cast<const float*>(message.data());
    for_each_pick(into.size(), message.size() / sizeof(float), occasion,
                  [&](size_t i, size_t index) { into[index] += sign * sent[i]; });
  }
};

}  // namespace

std::unique_ptr<Compressor> make_random_k() { return std::make_unique<RandomK>(); }

}  // namespace dlflow::runtime
