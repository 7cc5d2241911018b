#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/compress/compressor.h"

namespace dlflow::runtime {

/// Of a range of `count` numbers, how many are sent: at least 1 unless there are none.
size_t num_sent(size_t count, double density);

/// Some numbers of a range and where they are: all indices, ascending, then all values.
template <typename Index, typename Number>
struct SparseView {
  std::span<Index> indices;
  std::span<Number> values;
};

size_t sparse_bytes(size_t num_entries);

/// The entries in `message`, of sparse_bytes() and aligned to 4 bytes.
SparseView<uint32_t, float> sparse_view(std::span<std::byte> message);
SparseView<const uint32_t, const float> sparse_view(std::span<const std::byte> message);

/// Copies to `message` those of `values` whose indices it already has.
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
