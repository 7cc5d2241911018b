#include "runtime/cuda/staging.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace dlflow::cuda {

void require_room(int64_t batch, int64_t max_batch) {
  if (batch <= max_batch) return;
  throw std::runtime_error(std::to_string(batch) + " samples, but there is memory for only " +
                           std::to_string(max_batch));
}

Staging::Staging(int64_t max_batch, int64_t features)
    : max_batch_(max_batch),
      features_(features),
      pinned_images_(size_t(max_batch * features)),
      pinned_labels_(size_t(max_batch)),
      images_(size_t(max_batch * features)),
      labels_(size_t(max_batch)) {}

/// Waits until nothing uses the memory any more.
Staging::~Staging() { cudaStreamSynchronize(copying_.get()); }

void Staging::stage(const float* images, const uint32_t* labels, int64_t batch) {
  require_room(batch, max_batch_);
  check(cudaEventSynchronize(copied_.get()), "copying to the device");
  std::copy_n(images, batch * features_, pinned_images_.data());
  std::copy_n(labels, batch, pinned_labels_.data());
  const cudaStream_t stream = copying_.get();
  check(cudaStreamWaitEvent(stream, taken_.get(), 0), "cudaStreamWaitEvent");
  copy(images_.data(), pinned_images_.data(), batch * features_, cudaMemcpyHostToDevice, stream);
  copy(labels_.data(), pinned_labels_.data(), batch, cudaMemcpyHostToDevice, stream);
  check(cudaEventRecord(copied_.get(), stream), "cudaEventRecord");
  batch_ = batch;
}

void Staging::take(float* images, uint32_t* labels, cudaStream_t stream) {
  check(cudaStreamWaitEvent(stream, copied_.get(), 0), "cudaStreamWaitEvent");
  copy(images, images_.data(), batch_ * features_, cudaMemcpyDeviceToDevice, stream);
  copy(labels, labels_.data(), batch_, cudaMemcpyDeviceToDevice, stream);
  check(cudaEventRecord(taken_.get(), stream), "cudaEventRecord");
}

}  // namespace dlflow::cuda
