#include "runtime/compress/sparse_message.h"

#include <algorithm>
#include <cmath>

namespace dlflow::runtime {

size_t num_sent(size_t count, double density) {
  const auto wanted = size_t(std::llround(density * double(count)));
  return std::clamp(wanted, std::min<size_t>(count, 1), count);
}

size_t sparse_bytes(size_t num_entries) { return num_entries * (sizeof(uint32_t) + sizeof(float)); }

SparseView<uint32_t, float> sparse_view(std::span<std::byte> message) {
  const size_t count = message.size() / sparse_bytes(1);
  auto* const indices = reinterpret_cast<uint32_t*>(message.data());
  return {{indices, count}, {reinterpret_cast<float*>(indices + count), count}};
}

SparseView<const uint32_t, const float> sparse_view(std::span<const std::byte> message) {
  const size_t count = message.size() / sparse_bytes(1);
  const auto* const indices = reinterpret_cast<const uint32_t*>(message.data());
  return {{indices, count}, {reinterpret_cast<const float*>(indices + count), count}};
}

void fill_in(std::span<const float> values, std::span<std::byte> message) {
  const auto entries = sparse_view(message);
  for (size_t i = 0; i < entries.indices.size(); ++i) {
    entries.values[i] = values[entries.indices[i]];
  }
}

void SparseMethod::add(std::span<const std::byte> message, const Occasion& /*occasion*/, float sign,
                       std::span<float> into) const {
  const auto entries = sparse_view(message);
  for (size_t i = 0; i < entries.indices.size(); ++i) {
    into[entries.indices[i]] += sign * entries.values[i];
  }
}

}  // namespace dlflow::runtime
