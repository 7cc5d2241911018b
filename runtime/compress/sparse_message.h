#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/compress/compressor.h"

namespace dlflow::runtime {

/// The number of values sent for a range of `count`: at least 1 unless `count` is 0.
size_t num_sent(size_t count, double density);

/// Some numbers of a range and their places: all indices, ascending, then all values.
template <typename Index, typename Number>
struct SparseView {
  std::span<Index> indices;
  std::span<Number> values;
};

size_t sparse_bytes(size_t num_entries);

/// The entries in `message`, which has sparse_bytes() and is aligned to 4 bytes.
SparseView<uint32_t, float> sparse_view(std::span<std::byte> message);
SparseView<const uint32_t, const float> sparse_view(std::span<const std::byte> message);

/// Copies to `message` the `values` at the indices that it already has.
void fill_in(std::span<const float> values, std::span<std::byte> message);

/// A method whose messages are of this form.
class SparseMethod : public Compressor {
 public:
  size_t message_bytes(size_t count, const Occasion& occasion) const final {
    return sparse_bytes(num_sent(count, occasion.density));
  }
  void add(std::span<const std::byte> message, const Occasion& occasion, float sign,
           std::span<float> into) const final;
};

}  // namespace dlflow::runtime
