#include "runtime/nn/huge_buffer.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

namespace dlflow::runtime {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kHugePage = size_t(2) << 20;
constexpr size_t kWorthwhile = size_t(512) << 10;

}  // namespace

HugeBuffer::HugeBuffer(size_t num_floats) : size_(num_floats) {
  if (num_floats == 0) return;
  const size_t wanted = num_floats * sizeof(float);
  const size_t alignment = wanted >= kWorthwhile ? kHugePage : kLine;
  const size_t bytes = (wanted + alignment - 1) / alignment * alignment;
  data_.reset(static_cast<float*>(std::aligned_alloc(alignment, bytes)));
  if (data_ == nullptr) throw std::bad_alloc();
  if (alignment == kHugePage) ::madvise(data_.get(), bytes, MADV_HUGEPAGE);  // only advice
  std::memset(data_.get(), 0, bytes);
}

}  // namespace dlflow::runtime
