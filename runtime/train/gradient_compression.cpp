#include "runtime/train/gradient_compression.h"

#include <cstdio>
#include <functional>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

/// Compressing a shorter parameter takes as long as sending it.
constexpr size_t kSmallest = 1024;

/// Returns the position in its slot of each number of parameter `index`, in plain order.
std::vector<uint32_t> places(const WeightLayout& layout, size_t index) {
  const Parameter& parameter = layout.parameters()[index];
  constexpr uint32_t kHalf = 1 << 16;  // in two halves: a float is exact only up to 2^24
  std::vector<uint32_t> all;
  for (const uint32_t unit : {1u, kHalf}) {
    std::vector<float> slots(layout.size());
    for (uint32_t place = 0; place < parameter.size; ++place) {
      slots[parameter.offset + place] = float(place / unit % kHalf);
    }
    const std::vector<float> plain = layout.to_plain(slots, index);
    all.resize(plain.size());
    for (size_t i = 0; i < plain.size(); ++i) all[i] += uint32_t(plain[i]) * unit;
  }
  return all;
}

/// Rows are outputs. In blocked layouts, too, a position is the sum of a row and a column offset.
Matrix matrix_of(const WeightLayout& layout, size_t index) {
  const Parameter& parameter = layout.parameters()[index];
  const std::vector<uint32_t> all = places(layout, index);
  const size_t rows = size_t(parameter.shape[0]), columns = all.size() / rows;
  Matrix matrix{parameter.offset, {}, {}};
  for (size_t r = 0; r < rows; ++r) matrix.rows.push_back(all[r * columns]);
  for (size_t c = 0; c < columns; ++c) matrix.columns.push_back(all[c] - all[0]);
  for (size_t i = 0; i < all.size(); ++i) {
    DLFLOW_CHECK(all[i] == matrix.rows[i / columns] + matrix.columns[i % columns]);
  }
  return matrix;
}

/// Decides by the shape in the model: the slot's padding depends on the processor's kernels.
bool is_matrix(const Parameter& parameter) {
  const auto& shape = parameter.shape;
  const auto size = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  return parameter.trainable && shape.size() >= 2 && size_t(size) >= kSmallest;
}

}  // namespace

void tell_if_nothing_travels(const Communicator& comm, const Compression& how) {
  const bool one_node = comm.node_size() == comm.size();
  if (!one_node || how.aggregation != Aggregation::Hierarchical || comm.rank() != 0) return;
  std::fprintf(stderr,
               "all ranks share a node, so no gradient is compressed; "
               "`aggregation: all-gather` would compress them anyway\n");
}

CompressedGradients compressed_gradients(const WeightLayout& layout, const Compression& how,
                                         uint64_t seed) {
  CompressedGradients compressed{how, {}, {}, layout.num_trainable(), seed};
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    if (!is_matrix(layout.parameters()[i])) continue;
    if (how.method == CompressionMethod::PowerSgd) {
      Matrix matrix = matrix_of(layout, i);
      const size_t factors = how.rank * (matrix.rows.size() + matrix.columns.size());
      if (factors >= matrix.size()) continue;
      compressed.matrices.push_back(std::move(matrix));
    }
    compressed.parameters.push_back(i);
  }
  return compressed;
}

}  // namespace dlflow::runtime
