#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "runtime/gpu/plugin.h"
#include "runtime/gpu/program.h"
#include "runtime/nn/network.h"

namespace dlflow::runtime {

/// Numbers on a device: the host knows their address and must not look at them.
struct DeviceFloats {
  float* data = nullptr;
  size_t count = 0;
};

/// A point in what a stream does.
class GpuEvent {
 public:
  explicit GpuEvent(const GpuPlugin& plugin);

  /// This is now the point behind all that `stream` was given so far.
  void record(DlflowGpuStream stream);

  /// What `stream` is given from now on waits for that point; the host does not.
  void hold_back(DlflowGpuStream stream) const;

  /// Whether the device has come there; never waits.
  bool done() const;

 private:
  const GpuPlugin* plugin_;
  std::unique_ptr<void, void (*)(DlflowGpuEvent)> event_;
};

/// A program on a device, with weights, velocities and gradients. Calls enqueue work and return,
/// unless they say that they wait. All throw Error{Unavailable} in the words of CUDA.
class GpuSession {
 public:
  /// Allocates everything, zeroed. `plugin` must outlive this; the calling thread's current device
  /// is `device` from now on.
  GpuSession(const GpuPlugin& plugin, int device, const Program& program, int64_t max_batch,
             size_t report_size);

  /// Builds what batches of these sizes need, so that no step has to.
  void prepare(std::span<const int64_t> batches);

  /// From and to the host; they wait.
  void write(DlflowGpuBuffer buffer, std::span<const float> values);
  void read(DlflowGpuBuffer buffer, std::span<float> values) const;

  /// Copies samples to the device, beside what it does. Passes are of what was staged last.
  void stage(std::span<const float> images, std::span<const uint32_t> labels);

  /// See DlflowGpuPlugin::train. `ready(i)` is called for operation i of Program::announced.
  void train(float scale, std::span<const float> report,
             const std::function<void(size_t)>& ready = {});

  /// Numbers [first, first + count) make a step.
  void update(size_t first, size_t count, const DlflowGpuSgd& sgd);

  /// Enqueues the copy of the report to the host: `report_size` floats and one that is 0 if all
  /// weights are finite. To be read once an event behind it is done, until the next call.
  std::span<const float> end_step();

  /// Stages these samples, and waits.
  BatchResult infer(std::span<const float> images, std::span<const uint32_t> labels);

  /// On the device: `size` numbers of the layout and the report.
  DeviceFloats gradients() const;
  DlflowGpuStream computing_stream() const;

 private:
  const GpuPlugin& plugin_;
  size_t num_gradients_, report_size_;
  std::unique_ptr<DlflowGpuSession, void (*)(DlflowGpuSession*)> session_;
};

}  // namespace dlflow::runtime
