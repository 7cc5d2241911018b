#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/gpu/nccl_communicator.h"
#include "runtime/gpu/plugin.h"
#include "runtime/gpu/program.h"
#include "runtime/gpu/session.h"
#include "runtime/nn/arithmetic.h"
#include "runtime/reduce/bucket.h"

namespace dlflow::runtime {

/// The libraries that are opened at run time.
struct GpuLibraries {
  std::filesystem::path plugin = GpuPlugin::usual_file();
  std::string nccl = "libnccl.so.2";  ///< for several ranks; where the loader finds it
};

/// A rank's copy of a model on its GPU, kept the same as those of the other ranks: gradients are
/// summed on the devices while the backward pass goes on, and every rank makes the same update.
/// What NCCL adds in which order depends on the number of ranks: runs repeat bit for bit with the
/// same number of ranks, build and kind of GPU.
class GpuReplica {
 public:
  /// Collective: finds this rank's GPU (choose_device) and, for several ranks, opens NCCL. Batches
  /// have at most `max_batch` samples, here and in infer(). `compute` is not BFloat16. `comm` must
  /// outlive this.
  GpuReplica(Communicator& comm, const GpuLibraries& libraries, const Model& model,
             size_t max_batch, size_t report_size, Compute compute = Compute::Float32);

  /// Of everything that goes to and from the host.
  const WeightLayout& layout() const { return *layout_; }

  /// "NVIDIA H200, TF32, CUDA 13.0, cuDNN 9.19.0, NCCL 2.28.9": what decides the bits, beside the
  /// build.
  const std::string& arithmetic() const { return arithmetic_; }

  /// Builds what batches of these sizes need, here and in infer(), so that no step has to.
  void prepare(const std::set<size_t>& batches);

  void set_state(std::span<const float> weights, std::span<const float> velocity);
  void get_state(std::span<float> weights, std::span<float> velocity) const;

  /// The sums of the last step.
  void get_gradients(std::span<float> values) const { session_.read(DLFLOW_GPU_GRADIENTS, values); }

  /// This rank's scores in its last pass: for tests, which compare them with those of the CPU.
  void get_scores(std::span<float> values) const { session_.read(DLFLOW_GPU_SCORES, values); }

  /// The sums of a step over the ranks.
  struct StepEnd {
    std::span<const float> report;  ///< valid until the next step
    bool finite = true;             ///< every weight is a number
  };

  /// Copies the samples of the next step (there may be none) to the GPU; between begin_step() and
  /// end_step() beside what that computes.
  void stage(std::span<const float> images, std::span<const uint32_t> labels) {
    session_.stage(images, labels);
  }

  /// Enqueues forward and backward pass of what is staged, sum and update. Gradients are `scale`
  /// times those of the sum of losses. The first number of `report` becomes this rank's share of
  /// the loss.
  void begin_step(float scale, std::span<const float> report, const DlflowGpuSgd& sgd);

  /// Waits for the end of it.
  StepEnd end_step();

  /// All three.
  StepEnd step(std::span<const float> images, std::span<const uint32_t> labels, float scale,
               std::span<const float> report, const DlflowGpuSgd& sgd) {
    stage(images, labels);
    begin_step(scale, report, sgd);
    return end_step();
  }

  /// By the running statistics. Waits.
  BatchResult infer(std::span<const float> images, std::span<const uint32_t> labels) {
    return session_.infer(images, labels);
  }

 private:
  std::vector<DlflowGpuDevice> visible_devices() const;
  GpuSession make_session(size_t max_batch);
  void start_sums(size_t first_ready);
  void update(const DlflowGpuSgd& sgd);
  void wait_for_step();

  Communicator& comm_;
  GpuPlugin plugin_;
  std::shared_ptr<const WeightLayout> layout_;
  Program program_;
  Compute compute_;
  std::string arithmetic_;
  size_t report_size_;
  std::vector<Bucket> buckets_;
  GpuSession session_;
  GpuEvent end_;
  std::vector<DeviceTransfer> sums_;  // of the first buckets, in this step
  std::span<const float> step_end_;   // the report of this step, once end_ is done
  std::optional<NcclLibrary> nccl_library_;
  std::optional<NcclCommunicator> nccl_;  // last: what it has on the device ends before memory goes
};

}  // namespace dlflow::runtime
