#pragma once

#include <cstdint>

#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/stream.h"

namespace dlflow::cuda {

/// Throws if a batch has more samples than there is memory for.
void require_room(int64_t batch, int64_t max_batch);

/// Samples on their way to the device: copied by a stream of their own, beside what the device
/// computes, to where the next pass takes them from.
class Staging {
 public:
  /// Of `max_batch` samples of `features` numbers each.
  Staging(int64_t max_batch, int64_t features);
  ~Staging();

  /// Begins the copy; the samples may be overwritten once this has returned. Waits for that of the
  /// samples before.
  void stage(const float* images, const uint32_t* labels, int64_t batch);

  /// Samples that are staged.
  int64_t batch() const { return batch_; }

  /// Enqueues the copies of what is staged to `images` and `labels`.
  void take(float* images, uint32_t* labels, cudaStream_t stream);

 private:
  int64_t max_batch_, features_, batch_ = 0;
  Stream copying_;
  PinnedArray<float> pinned_images_;  // copies from other memory of the host may wait
  PinnedArray<uint32_t> pinned_labels_;
  DeviceArray<float> images_;
  DeviceArray<uint32_t> labels_;
  Event copied_;  // to the device
  Event taken_;   // from there
};

}  // namespace dlflow::cuda
