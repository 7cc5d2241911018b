#include "runtime/gpu/session.h"

#include <exception>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

/// Passes announced operations to `ready`, and keeps exceptions out of the plug-in's C code.
struct Announcements {
  const std::function<void(size_t)>& ready;
  std::exception_ptr error;
};

void announce(void* context, int32_t operation) {
  auto& announcements = *static_cast<Announcements*>(context);
  if (!announcements.ready || announcements.error) return;
  try {
    announcements.ready(size_t(operation));
  } catch (...) {
    announcements.error = std::current_exception();
  }
}

}  // namespace

GpuEvent::GpuEvent(const GpuPlugin& plugin)
    : plugin_(&plugin), event_(nullptr, plugin->destroy_event) {
  DlflowGpuEvent event = nullptr;
  check_gpu(plugin->create_event(&event), "creating an event");
  event_.reset(event);
}

void GpuEvent::record(DlflowGpuStream stream) {
  check_gpu((*plugin_)->record_event(event_.get(), stream), "recording an event");
}

void GpuEvent::hold_back(DlflowGpuStream stream) const {
  check_gpu((*plugin_)->wait_for_event(stream, event_.get()), "ordering two streams");
}

bool GpuEvent::done() const {
  int32_t done = 0;
  check_gpu((*plugin_)->event_done(event_.get(), &done), "computing on the GPU");
  return done != 0;
}

GpuSession::GpuSession(const GpuPlugin& plugin, int device, const Program& program,
                       int64_t max_batch, size_t report_size)
    : plugin_(plugin),
      num_gradients_(program.layout->size() + report_size),
      report_size_(report_size),
      session_(nullptr, plugin->close) {
  const DlflowGpuNetwork network = program.network(max_batch, report_size);
  DlflowGpuSession* session = nullptr;
  check_gpu(plugin_->open(device, &network, &session), "preparing the GPU");
  session_.reset(session);
}

void GpuSession::prepare(std::span<const int64_t> batches) {
  check_gpu(plugin_->prepare(session_.get(), batches.data(), int32_t(batches.size())),
            "preparing batches on the GPU");
}

void GpuSession::write(DlflowGpuBuffer buffer, std::span<const float> values) {
  check_gpu(plugin_->write(session_.get(), buffer, 0, int64_t(values.size()), values.data()),
            "copying to the GPU");
}

void GpuSession::read(DlflowGpuBuffer buffer, std::span<float> values) const {
  check_gpu(plugin_->read(session_.get(), buffer, 0, int64_t(values.size()), values.data()),
            "copying from the GPU");
}

void GpuSession::stage(std::span<const float> images, std::span<const uint32_t> labels) {
  check_gpu(plugin_->stage(session_.get(), images.data(), labels.data(), int64_t(labels.size())),
            "copying samples to the GPU");
}

void GpuSession::train(float scale, std::span<const float> report,
                       const std::function<void(size_t)>& ready) {
  DLFLOW_CHECK(report.size() == report_size_);
  Announcements announcements{ready, nullptr};
  const DlflowGpuError error =
      plugin_->train(session_.get(), scale, report.data(), announce, &announcements);
  if (announcements.error) std::rethrow_exception(announcements.error);
  check_gpu(error, "training on the GPU");
}

void GpuSession::update(size_t first, size_t count, const DlflowGpuSgd& sgd) {
  check_gpu(plugin_->update(session_.get(), int64_t(first), int64_t(count), sgd),
            "updating weights on the GPU");
}

std::span<const float> GpuSession::end_step() {
  const float* report = nullptr;
  check_gpu(plugin_->end_step(session_.get(), &report), "ending a step on the GPU");
  return {report, report_size_ + 1};
}

BatchResult GpuSession::infer(std::span<const float> images, std::span<const uint32_t> labels) {
  BatchResult result;
  result.num_targets = int64_t(labels.size());
  stage(images, labels);
  check_gpu(plugin_->infer(session_.get(), &result.loss_sum, &result.num_correct),
            "evaluating on the GPU");
  return result;
}

DeviceFloats GpuSession::gradients() const {
  return {plugin_->gradients(session_.get()), num_gradients_};
}

DlflowGpuStream GpuSession::computing_stream() const {
  return plugin_->computing_stream(session_.get());
}

}  // namespace dlflow::runtime
