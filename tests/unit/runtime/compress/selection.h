#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "runtime/compress/compressor.h"
#include "runtime/compress/sparse_message.h"

/// The numbers that a method sends, and those that it should send.
namespace dlflow::test {

inline runtime::Occasion at_density(double density) {
  return {.seed = 3, .step = 5, .first = 64, .density = density};
}

inline std::vector<std::byte> encode(const runtime::Compressor& compressor,
                                     const std::vector<float>& values,
                                     const runtime::Occasion& occasion) {
  std::vector<std::byte> message(compressor.message_bytes(values.size(), occasion));
  compressor.encode(values, occasion, message);
  return message;
}

/// The indices that a sparse method sends.
inline std::vector<uint32_t> indices_of(const runtime::Compressor& compressor,
                                        const std::vector<float>& values,
                                        const runtime::Occasion& occasion) {
  const auto message = encode(compressor, values, occasion);
  const auto indices = runtime::sparse_view(std::span<const std::byte>(message)).indices;
  return {indices.begin(), indices.end()};
}

/// The places of the `count` largest by sorting: the first of equals, and NaN before all else.
inline std::vector<uint32_t> largest_by_sorting(const std::vector<float>& values, size_t count) {
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::greater(), [&](uint32_t i) {
    const bool is_nan = std::isnan(values[i]);
    return std::pair(is_nan, is_nan ? 0.0f : std::fabs(values[i]));
  });
  order.resize(count);
  std::ranges::sort(order);
  return order;
}

}  // namespace dlflow::test
