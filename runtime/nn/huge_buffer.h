#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

namespace dlflow::runtime {

/// Zeroed memory for floats, 64-byte aligned. From 512 KiB on it uses huge pages if the system
/// provides them, which avoids TLB misses in strided kernels.
class HugeBuffer {
 public:
  explicit HugeBuffer(size_t num_floats = 0);

  std::span<float> floats() { return {data_.get(), size_}; }
  std::span<const float> floats() const { return {data_.get(), size_}; }
  float* data() { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(float* memory) const noexcept { std::free(memory); }
  };
  std::unique_ptr<float, Free> data_;
  size_t size_ = 0;
};

}  // namespace dlflow::runtime
