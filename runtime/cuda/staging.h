#pragma once

#include <cstdint>

#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/stream.h"

namespace dlflow::cuda {

/// Throws if a batch has more samples than fit in memory.
void require_room(int64_t batch, int64_t max_batch);

/// Samples on their way to the device: a separate stream copies them, while the device computes, to
/// where the next pass takes them from.
class Staging {
 public:
  /// Makes room for `max_batch` samples of `features` numbers each.
  Staging(int64_t max_batch, int64_t features);
  ~Staging();

  /// Begins the copy and returns once the caller may overwrite the samples. First waits for the
  /// copy of the previous samples.
  void stage(const float* images, const uint32_t* labels, int64_t batch);

  /// Number of staged samples.
  int64_t batch() const { return batch_; }

  /// Enqueues the copies of the staged samples to `images` and `labels`.
  void take(float* images, uint32_t* labels, cudaStream_t stream);

 private:
  int64_t max_batch_, features_, batch_ = 0;
  Stream copying_;
  PinnedArray<float> pinned_images_;  // copies from pageable memory may block
  PinnedArray<uint32_t> pinned_labels_;
  DeviceArray<float> images_;
  DeviceArray<uint32_t> labels_;
  Event copied_;  // to the device
  Event taken_;   // from images_ and labels_
};

}  // namespace dlflow::cuda
