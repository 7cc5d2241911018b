#pragma once

#include <cstddef>
#include <memory>

#include "runtime/cuda/cuda_check.h"

namespace dlflow::cuda {

struct FreeOnDevice {
  void operator()(void* memory) const noexcept { cudaFree(memory); }
};
struct FreePinned {
  void operator()(void* memory) const noexcept { cudaFreeHost(memory); }
};

/// `count` numbers on the current device, initially zero.
template <typename T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(size_t count) : size_(count) {
    if (count == 0) return;
    void* memory = nullptr;
    check(cudaMalloc(&memory, count * sizeof(T)), "cudaMalloc");
    memory_.reset(static_cast<T*>(memory));
    check(cudaMemset(memory, 0, count * sizeof(T)), "cudaMemset");
    // Streams that do not synchronise with the default stream must see the zeros before they write.
    check(cudaStreamSynchronize(nullptr), "cudaMemset");
  }

  T* data() const { return memory_.get(); }
  size_t size() const { return size_; }

 private:
  size_t size_ = 0;
  std::unique_ptr<T, FreeOnDevice> memory_;
};

/// `count` numbers in host memory that the device can copy from or to asynchronously.
template <typename T>
class PinnedArray {
 public:
  explicit PinnedArray(size_t count) {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, count * sizeof(T)), "cudaMallocHost");
    memory_.reset(static_cast<T*>(memory));
  }

  T* data() const { return memory_.get(); }

 private:
  std::unique_ptr<T, FreePinned> memory_;
};

/// Scratch memory that all operations of a stream use in turn.
class Workspace {
 public:
  /// Grows to at least `bytes`. Call before enqueuing anything that uses it: the contents are lost.
  void reserve(size_t bytes) {
    if (bytes > memory_.size()) memory_ = DeviceArray<std::byte>(bytes);
  }

  void* data() const { return memory_.data(); }
  size_t bytes() const { return memory_.size(); }

 private:
  DeviceArray<std::byte> memory_;
};

}  // namespace dlflow::cuda
