#pragma once

#include <cstddef>
#include <vector>

#include "runtime/reduce/flat_layout.h"

namespace dlflow::runtime {

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
