#include "runtime/cuda/session.h"

#include <algorithm>

namespace dlflow::cuda {
namespace {

template <typename T>
void copy(T* to, const T* from, int64_t count, cudaMemcpyKind kind, cudaStream_t stream) {
  check(cudaMemcpyAsync(to, from, size_t(count) * sizeof(T), kind, stream), "cudaMemcpyAsync");
}

int64_t features_of(const DlflowGpuValue& shape) {
  return shape.channels * shape.height * shape.width;
}

/// The part of [first, first + count) that lies in [begin, end).
struct Piece {
  int64_t first, count;
};
Piece piece(int64_t first, int64_t count, int64_t begin, int64_t end) {
  const int64_t from = std::clamp(first, begin, end);
  return {from, std::clamp(first + count, begin, end) - from};
}

}  // namespace

DeviceSession::DeviceSession(const DlflowGpuNetwork& network)
    : network_(network),
      descriptions_(network.operations, network.operations + network.num_operations),
      weights_(size_t(network.size)),
      velocity_(size_t(network.trainable_size)),
      gradients_(size_t(network.size + network.report_size + 1)),
      labels_(size_t(network.max_batch)),
      losses_(size_t(network.max_batch)),
      correct_(size_t(network.max_batch)),
      totals_(1),
      staged_images_(size_t(network.max_batch * features_of(network.values[0]))),
      staged_report_(size_t(network.report_size)),
      staged_labels_(size_t(network.max_batch)),
      report_here_(size_t(network.report_size + 1)),
      totals_here_(1) {
  check(cudnnSetStream(cudnn_.get(), stream_.get()), "cudnnSetStream");
  for (int32_t i = 0; i < network.num_values; ++i) {
    const DlflowGpuValue& shape = network.values[i];
    Value value{shape.channels, shape.height, shape.width, {}, {}};
    const size_t count = size_t(network.max_batch * value.features());
    value.data = DeviceArray<float>(count);
    if (shape.has_gradient) value.gradient = DeviceArray<float>(count);
    values_.push_back(std::move(value));
  }
}

/// Nothing uses memory that goes.
DeviceSession::~DeviceSession() { cudaStreamSynchronize(stream_.get()); }

float* DeviceSession::find(int32_t buffer, int64_t first, int64_t count) const {
  const DeviceArray<float>* array = nullptr;
  switch (DlflowGpuBuffer(buffer)) {
    case DLFLOW_GPU_WEIGHTS:
      array = &weights_;
      break;
    case DLFLOW_GPU_VELOCITY:
      array = &velocity_;
      break;
    case DLFLOW_GPU_GRADIENTS:
      array = &gradients_;
      break;
    case DLFLOW_GPU_SCORES:
      array = &scores().data;
      break;
  }
  if (array == nullptr) throw std::runtime_error("no buffer " + std::to_string(buffer));
  if (first < 0 || count < 0 || first + count > int64_t(array->size())) {
    throw std::runtime_error("numbers beyond the end of buffer " + std::to_string(buffer));
  }
  return array->data() + first;
}

void DeviceSession::write(int32_t buffer, int64_t first, int64_t count, const float* values) {
  copy(find(buffer, first, count), values, count, cudaMemcpyHostToDevice, stream());
  check(cudaStreamSynchronize(stream()), "copying to the device");
}

void DeviceSession::read(int32_t buffer, int64_t first, int64_t count, float* values) {
  copy(values, find(buffer, first, count), count, cudaMemcpyDeviceToHost, stream());
  check(cudaStreamSynchronize(stream()), "copying from the device");
}

void DeviceSession::prepare(const int64_t* batches, int32_t count) {
  for (int32_t i = 0; i < count; ++i) operations_for(batches[i]);
}

DeviceSession::Operations& DeviceSession::operations_for(int64_t batch) {
  if (batch > network_.max_batch) {
    throw std::runtime_error(std::to_string(batch) + " samples, where there is memory for " +
                             std::to_string(network_.max_batch));
  }
  Operations& operations = operations_[batch];
  if (operations.empty()) {
    for (const DlflowGpuOperation& description : descriptions_) {
      operations.push_back(build(description, batch));
    }
  }
  return operations;
}

std::unique_ptr<Operation> DeviceSession::build(const DlflowGpuOperation& description,
                                                int64_t batch) {
  const Value* second = description.second >= 0 ? &values_[size_t(description.second)] : nullptr;
  return make_operation({.description = description,
                         .batch = batch,
                         .batch_norm_epsilon = network_.batch_norm_epsilon,
                         .tools = {cudnn_.get(), blas_.get(), stream(), &workspace_},
                         .input = values_[size_t(description.input)],
                         .second = second,
                         .output = values_[size_t(description.output)],
                         .parameters = parameters_in(weights_.data(), description),
                         .gradients = parameters_in(gradients_.data(), description)});
}

Parameters DeviceSession::parameters_in(float* buffer,
                                        const DlflowGpuOperation& description) const {
  const auto at = [&](int64_t place) { return place < 0 ? nullptr : buffer + place; };
  return {at(description.weight), at(description.bias), at(description.mean),
          at(description.variance)};
}

/// Enqueues the copies of what a pass begins with; of the report only if it is given. Waits for
/// those of the pass before, which are done once a caller has seen the end of a step.
void DeviceSession::load(const float* images, const uint32_t* labels, int64_t batch,
                         const float* report_values) {
  check(cudaEventSynchronize(staged_.get()), "copying to the device");
  const int64_t pixels = batch * values_[0].features();
  std::copy_n(images, pixels, staged_images_.data());
  std::copy_n(labels, batch, staged_labels_.data());
  copy(values_[0].data.data(), staged_images_.data(), pixels, cudaMemcpyHostToDevice, stream());
  copy(labels_.data(), staged_labels_.data(), batch, cudaMemcpyHostToDevice, stream());
  if (report_values != nullptr) {
    std::copy_n(report_values, network_.report_size, staged_report_.data());
    copy(report(), staged_report_.data(), network_.report_size, cudaMemcpyHostToDevice, stream());
  }
  check(cudaEventRecord(staged_.get(), stream()), "cudaEventRecord");
}

void DeviceSession::forward(Operations& operations, bool training) {
  for (const auto& operation : operations) operation->forward(training);
}

void DeviceSession::find_loss(int64_t batch, float scale, float* gradient, float* share) {
  softmax_cross_entropy(scores().data.data(), labels_.data(), batch, scores().features(), scale,
                        gradient, losses_.data(), correct_.data(), stream());
  add_up(losses_.data(), correct_.data(), batch, scale, totals_.data(), share, stream());
}

void DeviceSession::train(const float* images, const uint32_t* labels, int64_t batch, float scale,
                          const float* report_values, DlflowGpuReady ready, void* context) {
  if (batch == 0) return train_nothing(report_values, ready, context);
  Operations& operations = operations_for(batch);
  load(images, labels, batch, report_values);
  forward(operations, true);
  find_loss(batch, scale, scores().gradient.data(), report());
  cuda::scale(gradients_.data() + network_.trainable_size, network_.size - network_.trainable_size,
              scale * float(batch), stream());
  backward(operations, batch, ready, context);
}

void DeviceSession::backward(Operations& operations, int64_t batch, DlflowGpuReady ready,
                             void* context) {
  for (size_t i = operations.size(); i-- > 0;) {
    const Value& output = values_[size_t(descriptions_[i].output)];
    if (output.gradient.size() > 0) {
      if (descriptions_[i].relu) {
        mask_gradient(output.gradient.data(), output.data.data(), batch * output.features(),
                      stream());
      }
      operations[i]->backward();
    }
    ready(context, int32_t(i));
  }
}

/// This rank has no samples of the batch: it adds zeros, and its report.
void DeviceSession::train_nothing(const float* report_values, DlflowGpuReady ready, void* context) {
  check(cudaMemsetAsync(gradients_.data(), 0, size_t(network_.size) * sizeof(float), stream()),
        "cudaMemsetAsync");
  load(nullptr, nullptr, 0, report_values);
  check(cudaMemsetAsync(report(), 0, sizeof(float), stream()), "cudaMemsetAsync");
  for (size_t i = descriptions_.size(); i-- > 0;) ready(context, int32_t(i));
}

void DeviceSession::update(int64_t first, int64_t count, const DlflowGpuSgd& options) {
  const Piece trained = piece(first, count, 0, network_.trainable_size);
  sgd(weights_.data() + trained.first, velocity_.data() + trained.first,
      gradients_.data() + trained.first, trained.count, options.learning_rate, options.momentum,
      options.weight_decay, broken(), stream());
  const Piece statistics = piece(first, count, network_.trainable_size, network_.size);
  move_statistics(weights_.data() + statistics.first, gradients_.data() + statistics.first,
                  statistics.count, network_.statistics_momentum, stream());
}

const float* DeviceSession::end_step() {
  copy(report_here_.data(), report(), network_.report_size + 1, cudaMemcpyDeviceToHost, stream());
  return report_here_.data();
}

void DeviceSession::infer(const float* images, const uint32_t* labels, int64_t batch,
                          Totals& totals) {
  Operations& operations = operations_for(batch);
  load(images, labels, batch, nullptr);
  forward(operations, false);
  find_loss(batch, 1, nullptr, nullptr);
  copy(totals_here_.data(), totals_.data(), 1, cudaMemcpyDeviceToHost, stream());
  check(cudaStreamSynchronize(stream()), "evaluating");
  totals = *totals_here_.data();
}

}  // namespace dlflow::cuda
