#include "runtime/reduce/bucket.h"

#include "base/aligned_floats.h"

namespace dlflow::runtime {

FlatLayout::FlatLayout(std::span<const size_t> sizes) : sizes_(sizes.begin(), sizes.end()) {
  size_t offset = 0;
  for (const size_t size : sizes_) {
    offsets_.push_back(offset);
    offset += whole_lines(size);
  }
  offsets_.push_back(offset);
}

std::vector<Bucket> make_buckets(const FlatLayout& layout, size_t max_bytes) {
  const auto elements_of = [&](size_t first, size_t end) {
    return (end == layout.num_parameters() ? layout.num_elements() : layout.offset(end)) -
           layout.offset(first);
  };
  std::vector<Bucket> buckets;
  for (size_t end = layout.num_parameters(); end > 0;) {
    size_t first = end - 1;
    while (first > 0 && elements_of(first - 1, end) * sizeof(float) <= max_bytes) --first;
    buckets.push_back({first, end, layout.offset(first), elements_of(first, end)});
    end = first;
  }
  return buckets;
}

}  // namespace dlflow::runtime
