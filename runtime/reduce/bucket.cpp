#include "runtime/reduce/bucket.h"

namespace dlflow::runtime {

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
