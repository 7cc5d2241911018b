#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/graph.h"
#include "runtime/cuda/handles.h"
#include "runtime/cuda/kernels.h"
#include "runtime/cuda/operation.h"
#include "runtime/cuda/staging.h"
#include "runtime/cuda/stream.h"
#include "runtime/gpu/plugin_abi.h"

namespace dlflow::cuda {

/// Implements DlflowGpuSession: a network's memory on one device, and its passes. The contracts are
/// those of runtime/gpu/plugin_abi.h; failures throw std::runtime_error.
class DeviceSession {
 public:
  /// Uses the current device.
  explicit DeviceSession(const DlflowGpuNetwork& network);
  ~DeviceSession();

  void prepare(const int64_t* batches, int32_t count);
  void write(int32_t buffer, int64_t first, int64_t count, const float* values);
  void read(int32_t buffer, int64_t first, int64_t count, float* values);
  void stage(const float* images, const uint32_t* labels, int64_t batch) {
    staging_.stage(images, labels, batch);
  }
  void train(float scale, const float* report, DlflowGpuReady ready, void* context);
  void update(int64_t first, int64_t count, const DlflowGpuSgd& sgd);
  const float* end_step();
  void infer(Totals& totals);

  float* gradients() const { return gradients_.data(); }
  cudaStream_t stream() const { return stream_.get(); }

 private:
  using Operations = std::vector<std::unique_ptr<Operation>>;

  /// The passes of one batch size.
  struct Passes {
    Operations operations;
    std::vector<Graph> training;  ///< one up to each announcement, and the rest
    std::optional<Graph> inference;
    const void* workspace = nullptr;  ///< its address when they were recorded
  };

  Passes& built(int64_t batch);
  Passes& recorded(int64_t batch);
  void record(Passes& passes, int64_t batch);
  std::unique_ptr<Operation> build(const DlflowGpuOperation& description, int64_t batch);
  Parameters parameters_in(float* buffer, const DlflowGpuOperation& description) const;
  float* find(int32_t buffer, int64_t first, int64_t count) const;
  void load_report(float scale, const float* values);
  void enqueue_inference(Operations& operations, int64_t batch);
  void enqueue_forward(Operations& operations, int64_t batch);
  void enqueue_backward(Operations& operations, size_t first, size_t end);
  std::vector<size_t> pieces_of_backward() const;
  void train_nothing(const float* report, DlflowGpuReady ready, void* context);
  const Value& scores() const { return values_[size_t(descriptions_.back().output)]; }
  Scores scores_of(int64_t batch) const {
    return {scores().data.data(), labels_.data(), batch, scores().features()};
  }
  SampleLosses losses() const { return {losses_.data(), correct_.data()}; }
  float* report() const { return gradients_.data() + network_.size; }
  float* broken() const { return report() + network_.report_size; }

  DlflowGpuNetwork network_;  // its arrays are no longer read
  std::vector<DlflowGpuOperation> descriptions_;
  std::vector<int32_t> announced_;
  size_t most_workspace_;
  Stream stream_;
  CudnnHandle cudnn_;
  BlasHandle blas_;
  Workspace workspace_;
  std::vector<Value> values_;
  DeviceArray<float> weights_, velocity_;
  DeviceArray<float> gradients_;  // followed by the report and the number of broken()
  DeviceArray<uint32_t> labels_;
  DeviceArray<double> losses_;
  DeviceArray<int> correct_;
  DeviceArray<Totals> totals_;
  Staging staging_;
  PinnedArray<float> pinned_report_;  // copies from pageable memory may block
  Event reported_;                    // after it, pinned_report_ may be overwritten
  PinnedArray<float> report_here_;
  PinnedArray<Totals> totals_here_;
  std::map<int64_t, Passes> passes_;  // by batch size
};

}  // namespace dlflow::cuda
