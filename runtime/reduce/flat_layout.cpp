#include "runtime/reduce/flat_layout.h"

namespace dlflow::runtime {

FlatLayout::FlatLayout(std::span<const size_t> sizes) : sizes_(sizes.begin(), sizes.end()) {
  constexpr size_t kLineElements = 64 / sizeof(float);
  size_t offset = 0;
  for (const size_t size : sizes_) {
    offsets_.push_back(offset);
    offset += (size + kLineElements - 1) / kLineElements * kLineElements;
  }
  offsets_.push_back(offset);
}

}  // namespace dlflow::runtime
