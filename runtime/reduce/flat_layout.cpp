#include "runtime/reduce/flat_layout.h"

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

}  // namespace dlflow::runtime
