#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "runtime/nn/huge_buffer.h"

namespace dlflow::runtime {

/// A weight of a linear layer whose gradient is a sum of outer products, one per sample, of the
/// layer's input (one entry per row) and the gradient of its result (one entry per column).
struct ProductShape {
  size_t parameter = 0;
  int64_t rows = 0;     ///< a multiple of OuterProducts::kRows
  int64_t columns = 0;  ///< a multiple of `group`
  int64_t group = 0;    ///< in memory: (columns / group, rows, group); a multiple of kColumns

  bool operator==(const ProductShape&) const = default;
};

/// The gradients of such weights over the leaves of one rank, computed in one pass. Their factors,
/// which are far smaller than the weight, are kept until all leaves are there. Then each tile of
/// the gradient is computed for one leaf after the other, summed in the order of the leaves' tree
/// in registers, and written once. Leaf by leaf, the gradient would be written and read once more
/// for each. A leaf's gradient has the same bits for any number of other leaves. Single-threaded.
class OuterProducts {
 public:
  static constexpr int64_t kRows = 16, kColumns = 64;

  /// The leaves together have at most `max_samples` samples. `additions`, one per leaf, and the
  /// remaining parts are defined in LeafShare (runtime/collectives/sum_order.h).
  OuterProducts(std::span<const ProductShape> shapes, size_t max_samples,
                std::vector<uint8_t> additions);

  bool has(size_t parameter) const { return factors_.contains(parameter); }

  /// Begins leaf `leaf`, which must be 0 or the one after the last, with `samples` samples.
  void begin_leaf(size_t leaf, size_t samples);

  /// Keeps the factors of the current leaf: (samples, rows) and (samples, columns).
  void keep(size_t parameter, const float* of_rows, const float* of_columns);

  /// Must follow keep() for all leaves. Writes `parameter`'s gradient to `parts`, one for each
  /// remaining part. Adds the squared lengths of the leaves' gradients to `squares`, if not empty.
  void add_up(size_t parameter, std::span<float* const> parts, std::span<double> squares) const;

 private:
  struct Factors {
    ProductShape shape;
    HugeBuffer of_rows;     // (rows / kRows, max_samples, kRows)
    HugeBuffer of_columns;  // (columns / kColumns, max_samples, kColumns)
  };

  size_t max_samples_;
  std::vector<uint8_t> additions_;
  std::vector<size_t> ends_;  // end of each begun leaf's samples
  std::map<size_t, Factors> factors_;
};

}  // namespace dlflow::runtime
