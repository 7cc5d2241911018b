#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "runtime/nn/huge_buffer.h"

namespace dlflow::runtime {

/// A weight of a linear layer, whose gradient is a sum of outer products, one per sample: of what
/// the layer read and of the gradient of its result. The one has an entry per row, the other one
/// per column.
struct ProductShape {
  size_t parameter = 0;
  int64_t rows = 0;     ///< a multiple of OuterProducts::kRows
  int64_t columns = 0;  ///< a multiple of `group`
  int64_t group = 0;    ///< in memory: (columns / group, rows, group); a multiple of kColumns

  bool operator==(const ProductShape&) const = default;
};

/// The gradients of such weights over the leaves of one rank, in one pass. What the samples bring
/// in and what comes back are matrices far smaller than the weight; they are kept until all leaves
/// are there. Then each tile of the gradient is computed for one leaf after the other, added up in
/// the order of the leaves' tree while it is in registers, and written once. Leaf by leaf, the
/// gradient would be written and read once more for each. A leaf's gradient has the same bits
/// however many leaves are beside it. For one thread.
class OuterProducts {
 public:
  static constexpr int64_t kRows = 16, kColumns = 64;

  /// The leaves together have at most `max_samples` samples. `additions`, for each leaf, and what
  /// is left of them: as in LeafShare (runtime/collectives/sum_order.h).
  OuterProducts(std::span<const ProductShape> shapes, size_t max_samples,
                std::vector<uint8_t> additions);

  bool has(size_t parameter) const { return factors_.contains(parameter); }

  /// Leaf `leaf`, 0 or the one after the last, has so many samples.
  void begin_leaf(size_t leaf, size_t samples);

  /// Of the leaf that was begun: (samples, rows) and (samples, columns).
  void keep(size_t parameter, const float* of_rows, const float* of_columns);

  /// All leaves have been kept: writes `parameter`'s gradient to `parts`, one for each part that is
  /// left. Adds the squared length of each leaf's gradient to `squares`, if it is not empty.
  void add_up(size_t parameter, std::span<float* const> parts, std::span<double> squares) const;

 private:
  struct Factors {
    ProductShape shape;
    HugeBuffer of_rows;     // (rows / kRows, max_samples, kRows)
    HugeBuffer of_columns;  // (columns / kColumns, max_samples, kColumns)
  };

  size_t max_samples_;
  std::vector<uint8_t> additions_;
  std::vector<size_t> ends_;  // of the samples of each leaf that was begun
  std::map<size_t, Factors> factors_;
};

}  // namespace dlflow::runtime
