#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dlflow::runtime {

/// The place of each parameter in one flat fp32 buffer: in order, each slot starting at a multiple
/// of 16 floats (a cache line). Weights, gradients and momenta share one layout, so that an update
/// is one loop; padding is zero in all of them and stays so.
class FlatLayout {
 public:
  /// `sizes`: the number of elements of each parameter, in layer order; 0 is allowed.
  explicit FlatLayout(std::span<const size_t> sizes);

  size_t num_parameters() const { return sizes_.size(); }

  /// The size of the whole buffer, padding included.
  size_t num_elements() const { return offsets_.back(); }

  size_t offset(size_t parameter) const { return offsets_[parameter]; }
  size_t size(size_t parameter) const { return sizes_[parameter]; }

  /// The slot of `parameter` in `buffer` (num_elements()), without its padding.
  template <typename T>
  std::span<T> slot(std::span<T> buffer, size_t parameter) const {
    return buffer.subspan(offset(parameter), size(parameter));
  }

  bool operator==(const FlatLayout&) const = default;

 private:
  std::vector<size_t> sizes_;
  std::vector<size_t> offsets_;  // one per parameter, and the end of the last
};

/// Gradients that travel together: parameters [first_parameter, end_parameter) of a layout.
struct Bucket {
  size_t first_parameter = 0, end_parameter = 0;
  size_t first_element = 0, num_elements = 0;  ///< in the flat buffer, padding included

  bool operator==(const Bucket&) const = default;
};

/// Divides all parameters into buckets, the last layers first, since the backward pass finishes
/// those first. A bucket takes parameters until one more would exceed `max_bytes`; a parameter
/// larger than that is a bucket of its own.
std::vector<Bucket> make_buckets(const FlatLayout& layout, size_t max_bytes);

}  // namespace dlflow::runtime
