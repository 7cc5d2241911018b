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

/// `count` zeros on the current device.
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
    // Streams that do not wait for the default stream find the zeros, and not later than their own.
    check(cudaStreamSynchronize(nullptr), "cudaMemset");
  }

  T* data() const { return memory_.get(); }
  size_t size() const { return size_; }

 private:
  size_t size_ = 0;
  std::unique_ptr<T, FreeOnDevice> memory_;
};

/// `count` numbers of the host that the device copies from or to while the host goes on.
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

/// Scratch memory that all operations of a stream share, one after the other.
class Workspace {
 public:
  /// At least `bytes` from now on. Before anything that uses it is enqueued: what was there goes.
  void reserve(size_t bytes) {
    if (bytes > memory_.size()) memory_ = DeviceArray<std::byte>(bytes);
  }

  void* data() const { return memory_.data(); }
  size_t bytes() const { return memory_.size(); }

 private:
  DeviceArray<std::byte> memory_;
};

}  // namespace dlflow::cuda
