#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/nn/model.h"

/// Parts and rearrangements of a layer's result, as exporters make them on the way to attention:
/// slices, splits, shapes and orders of dimensions. None of them computes anything, so that all are
/// one thing: where in the result each number is found.
namespace dlflow::runtime {

/// Stands for the number of samples wherever sizes are computed. It is a prime that no size
/// reaches, so that a product of sizes tells whether, and how often, it holds the batch.
constexpr int64_t kBatch = (int64_t{1} << 40) + 15;

/// `size` numbers that lie `stride` apart in a sample; of the batch, `size` is kBatch.
struct Factor {
  int64_t size = 1;
  int64_t stride = 0;
  bool operator==(const Factor&) const = default;
};

/// The factors of one dimension, row-major, as few as possible; none: its size is 1.
using Dimension = std::vector<Factor>;

struct View {
  int layer = kImages;
  int64_t offset = 0;  ///< of the first number in a sample
  std::vector<Dimension> dimensions;
  float factor = 1;     ///< of each number
  int64_t rotated = 0;  ///< heads of this size have been rotated by their position; 0: none
  bool operator==(const View&) const = default;
};

/// Of a result (B,T,F), whose sizes are `shape`.
View view_of(int layer, const TensorShape& shape);

/// With the fewest factors.
Dimension simplified(const Dimension& dimension);

/// kBatch times how many numbers a sample has there, if the dimension holds the batch.
int64_t size_of(const Dimension& dimension);
std::vector<int64_t> sizes_of(const View& view);

/// The product. Throws Error{InvalidInput} beyond what sizes can be.
int64_t checked_product(int64_t a, int64_t b);

/// \param axis  may count from the end. Throws Error{InvalidInput} for one that is none.
size_t dimension_at(int64_t axis, size_t rank);

/// Where a slice of `size` numbers begins or ends; `at` may count from the end, or lie outside.
int64_t slice_bound(int64_t at, int64_t size);

/// These throw Error{InvalidInput} for what is no view, or none of `view`.
View transposed(const View& view, const std::vector<int64_t>& order);
View sliced(const View& view, size_t axis, int64_t begin, int64_t end);
/// Of the one index alone, without the dimension.
View chosen(const View& view, size_t axis, int64_t index);
View expanded(const View& view, const std::vector<int64_t>& sizes);

/// \param sizes  as Reshape has them: 0 copies a size, -1 is found
/// \param batch  the number of samples that the file says; below 1: any
View reshaped(const View& view, const std::vector<int64_t>& sizes, int64_t batch);

}  // namespace dlflow::runtime
