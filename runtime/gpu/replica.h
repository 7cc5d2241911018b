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
  std::string nccl = "libnccl.so.2";  ///< for several ranks; found by the loader
};

/// A rank's copy of a model on its GPU, kept equal to those of the other ranks: gradients are
/// summed on the devices during the backward pass, and every rank makes the same update. NCCL's
/// order of additions depends on the number of ranks: runs repeat bit for bit with the same number
/// of ranks, build and kind of GPU.
class GpuReplica {
 public:
  /// Collective: chooses this rank's GPU (choose_device) and, for several ranks, opens NCCL.
  /// Batches have at most `max_batch` samples, here and in infer(). `compute` must not be BFloat16.
  /// `comm` must outlive this.
  GpuReplica(Communicator& comm, const GpuLibraries& libraries, const Model& model,
             size_t max_batch, size_t report_size, Compute compute = Compute::Float32);

  /// The layout of all data copied from and to the host.
  const WeightLayout& layout() const { return *layout_; }

  /// "NVIDIA H200, TF32, CUDA 13.0, cuDNN 9.19.0, NCCL 2.28.9": decides the bits, with the build.
  const std::string& arithmetic() const { return arithmetic_; }

  /// Prepares batches of these sizes, here and in infer(), so that no step has to.
  void prepare(const std::set<size_t>& batches);

  void set_state(std::span<const float> weights, std::span<const float> velocity);
  void get_state(std::span<float> weights, std::span<float> velocity) const;

  /// The sums of the last step's gradients.
  void get_gradients(std::span<float> values) const { session_.read(DLFLOW_GPU_GRADIENTS, values); }

  /// This rank's scores in its last pass, for tests that compare them with the CPU's.
  void get_scores(std::span<float> values) const { session_.read(DLFLOW_GPU_SCORES, values); }

  /// The sums of a step over the ranks.
  struct StepEnd {
    std::span<const float> report;  ///< valid until the next step
    bool finite = true;             ///< every weight is finite
  };

  /// Copies the samples of the next step (there may be none) to the GPU; between begin_step() and
  /// end_step(), in parallel with the step.
  void stage(std::span<const float> images, std::span<const uint32_t> labels) {
    session_.stage(images, labels);
  }

  /// Enqueues forward pass, backward pass, sum and update for the staged samples. Gradients are
  /// `scale` times those of the sum of losses. The first number of `report` becomes this rank's
  /// share of the loss.
  void begin_step(float scale, std::span<const float> report, const DlflowGpuSgd& sgd);

  /// Waits for the end of the step.
  StepEnd end_step();

  /// Calls stage(), begin_step() and end_step().
  StepEnd step(std::span<const float> images, std::span<const uint32_t> labels, float scale,
               std::span<const float> report, const DlflowGpuSgd& sgd) {
    stage(images, labels);
    begin_step(scale, report, sgd);
    return end_step();
  }

  /// Evaluates with the running statistics. Waits.
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
  std::vector<DeviceTransfer> sums_;  // sums of the first buckets in this step
  std::span<const float> step_end_;   // the report of this step, once end_ is done
  std::optional<NcclLibrary> nccl_library_;
  std::optional<NcclCommunicator> nccl_;  // last member: its work on the device must end first
};

}  // namespace dlflow::runtime
