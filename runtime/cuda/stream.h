#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/cuda_check.h"

namespace dlflow::cuda {

/// A stream that does not synchronise with CUDA's default stream.
class Stream {
 public:
  Stream() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(stream_); }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A point in the work of a stream.
class Event {
 public:
  Event() {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Enqueues the copy of `count` numbers.
template <typename T>
void copy(T* to, const T* from, int64_t count, cudaMemcpyKind kind, cudaStream_t stream) {
  check(cudaMemcpyAsync(to, from, size_t(count) * sizeof(T), kind, stream), "cudaMemcpyAsync");
}

}  // namespace dlflow::cuda
