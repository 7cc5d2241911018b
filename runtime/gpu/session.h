#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "runtime/gpu/plugin.h"
#include "runtime/gpu/program.h"
#include "runtime/nn/network.h"

namespace dlflow::runtime {

/// Numbers on a device: the host has their address but must not access them.
struct DeviceFloats {
  float* data = nullptr;
  size_t count = 0;
};

/// A point in the work of a stream.
class GpuEvent {
 public:
  explicit GpuEvent(const GpuPlugin& plugin);

  /// Sets the point behind all work enqueued on `stream` so far.
  void record(DlflowGpuStream stream);

  /// Delays work enqueued on `stream` from now on until that point; the host does not wait.
  void hold_back(DlflowGpuStream stream) const;

  /// Whether the device has reached that point; never waits.
  bool done() const;

 private:
  const GpuPlugin* plugin_;
  std::unique_ptr<void, void (*)(DlflowGpuEvent)> event_;
};

/// A program on a device, with weights, velocities and gradients. Calls enqueue work and return,
/// except where they are documented to wait. All throw Error{Unavailable} with CUDA's message.
class GpuSession {
 public:
  /// Allocates and zeroes all memory. `plugin` must outlive this. Makes `device` the calling
  /// thread's current device.
  GpuSession(const GpuPlugin& plugin, int device, const Program& program, int64_t max_batch,
             size_t report_size);

  /// Prepares batches of these sizes, so that no step has to.
  void prepare(std::span<const int64_t> batches);

  /// Copy from and to the host, and wait.
  void write(DlflowGpuBuffer buffer, std::span<const float> values);
  void read(DlflowGpuBuffer buffer, std::span<float> values) const;

  /// Copies samples to the device, in parallel with its work. Passes use the samples staged last.
  void stage(std::span<const float> images, std::span<const uint32_t> labels);

  /// See DlflowGpuPlugin::train. `ready(i)` is called for operation i of Program::announced.
  void train(float scale, std::span<const float> report,
             const std::function<void(size_t)>& ready = {});

  /// Updates elements [first, first + count).
  void update(size_t first, size_t count, const DlflowGpuSgd& sgd);

  /// Enqueues the copy of the report to the host: `report_size` floats, and one that is 0 if all
  /// weights are finite. Valid once a later event is done, until the next call.
  std::span<const float> end_step();

  /// Stages these samples and evaluates them. Waits.
  BatchResult infer(std::span<const float> images, std::span<const uint32_t> labels);

  /// Device memory of the layout's `size` numbers and the report.
  DeviceFloats gradients() const;
  DlflowGpuStream computing_stream() const;

 private:
  const GpuPlugin& plugin_;
  size_t num_gradients_, report_size_;
  std::unique_ptr<DlflowGpuSession, void (*)(DlflowGpuSession*)> session_;
};

}  // namespace dlflow::runtime
