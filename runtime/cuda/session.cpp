#include "runtime/cuda/session.h"

#include <algorithm>

namespace dlflow::cuda {
namespace {

int64_t features_of(const DlflowGpuValue& shape) {
  return shape.channels * shape.height * shape.width;
}

/// 1 GiB, enough for cuDNN's fastest with 128 pictures of 224 x 224; less on small devices.
size_t most_workspace_here() {
  constexpr size_t kMost = size_t(1) << 30, kShareOfDevice = 16;
  size_t available = 0, all = 0;
  check(cudaMemGetInfo(&available, &all), "cudaMemGetInfo");
  return std::min(kMost, all / kShareOfDevice);
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
      announced_(network.announced, network.announced + network.num_announced),
      most_workspace_(most_workspace_here()),
      weights_(size_t(network.size)),
      velocity_(size_t(network.trainable_size)),
      gradients_(size_t(network.size + network.report_size + 1)),
      labels_(size_t(network.max_batch)),
      losses_(size_t(network.max_batch)),
      correct_(size_t(network.max_batch)),
      totals_(1),
      staging_(network.max_batch, features_of(network.values[0])),
      pinned_report_(size_t(network.report_size)),
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

/// Waits until nothing uses the memory any more.
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

/// All batch sizes are built before the first is recorded, since scratch memory grows until then.
void DeviceSession::prepare(const int64_t* batches, int32_t count) {
  for (int32_t i = 0; i < count; ++i) built(batches[i]);
  for (int32_t i = 0; i < count; ++i) recorded(batches[i]);
}

DeviceSession::Passes& DeviceSession::built(int64_t batch) {
  require_room(batch, network_.max_batch);
  Passes& passes = passes_[batch];
  if (passes.operations.empty()) {
    for (const DlflowGpuOperation& description : descriptions_) {
      passes.operations.push_back(build(description, batch));
    }
  }
  return passes;
}

DeviceSession::Passes& DeviceSession::recorded(int64_t batch) {
  Passes& passes = built(batch);
  if (!passes.inference || passes.workspace != workspace_.data()) record(passes, batch);
  return passes;
}

/// The first passes run unrecorded, because libraries allocate on first use. They change scores,
/// gradients and the report, which the next pass overwrites.
void DeviceSession::record(Passes& passes, int64_t batch) {
  Operations& operations = passes.operations;
  enqueue_inference(operations, batch);
  enqueue_forward(operations, batch);
  enqueue_backward(operations, 0, operations.size());
  check(cudaStreamSynchronize(stream()), "the first pass of a batch");

  passes.inference.emplace(stream(), [&] { enqueue_inference(operations, batch); });
  passes.training.clear();
  size_t end = operations.size();
  for (const size_t first : pieces_of_backward()) {
    passes.training.emplace_back(stream(), [&] {
      if (end == operations.size()) enqueue_forward(operations, batch);
      enqueue_backward(operations, first, end);
    });
    end = first;
  }
  passes.workspace = workspace_.data();
}

/// The first operation of each piece, from the last piece to the first. A piece ends with an
/// announced operation.
std::vector<size_t> DeviceSession::pieces_of_backward() const {
  std::vector<size_t> firsts(announced_.begin(), announced_.end());
  if (firsts.empty() || firsts.back() != 0) firsts.push_back(0);
  return firsts;
}

std::unique_ptr<Operation> DeviceSession::build(const DlflowGpuOperation& description,
                                                int64_t batch) {
  const Value* second = description.second >= 0 ? &values_[size_t(description.second)] : nullptr;
  return make_operation(
      {.description = description,
       .batch = batch,
       .batch_norm_epsilon = network_.batch_norm_epsilon,
       .tensor_float32 = network_.tensor_float32 != 0,
       .tools = {cudnn_.get(), blas_.get(), stream(), &workspace_, most_workspace_},
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

/// The report's first number is the scale until the loss is known. Waits for the copy of the
/// previous step, whose end the caller has seen.
void DeviceSession::load_report(float scale, const float* values) {
  check(cudaEventSynchronize(reported_.get()), "copying to the device");
  std::copy_n(values, network_.report_size, pinned_report_.data());
  pinned_report_.data()[0] = scale;
  copy(report(), pinned_report_.data(), network_.report_size, cudaMemcpyHostToDevice, stream());
  check(cudaEventRecord(reported_.get(), stream()), "cudaEventRecord");
}

void DeviceSession::enqueue_inference(Operations& operations, int64_t batch) {
  for (const auto& operation : operations) operation->forward(false);
  softmax_cross_entropy(scores_of(batch), nullptr, nullptr, losses(), stream());
  add_up(losses(), batch, totals_.data(), nullptr, stream());
}

/// Enqueues everything up to the gradient of the scores.
void DeviceSession::enqueue_forward(Operations& operations, int64_t batch) {
  for (const auto& operation : operations) operation->forward(true);
  softmax_cross_entropy(scores_of(batch), report(), scores().gradient.data(), losses(), stream());
  scale(gradients_.data() + network_.trainable_size, network_.size - network_.trainable_size,
        report(), float(batch), stream());
  add_up(losses(), batch, totals_.data(), report(), stream());
}

/// Enqueues operations [first, end), from the last to the first.
void DeviceSession::enqueue_backward(Operations& operations, size_t first, size_t end) {
  for (size_t i = end; i-- > first;) {
    const Value& output = values_[size_t(descriptions_[i].output)];
    if (output.gradient.size() > 0) operations[i]->backward();
  }
}

void DeviceSession::train(float scale, const float* report_values, DlflowGpuReady ready,
                          void* context) {
  if (staging_.batch() == 0) return train_nothing(report_values, ready, context);
  const Passes& passes = recorded(staging_.batch());
  staging_.take(values_[0].data.data(), labels_.data(), stream());
  load_report(scale, report_values);
  for (size_t i = 0; i < passes.training.size(); ++i) {
    passes.training[i].launch(stream());
    if (i < announced_.size()) ready(context, announced_[i]);
  }
}

/// This rank has no samples of the batch: it contributes zeros, and its report.
void DeviceSession::train_nothing(const float* report_values, DlflowGpuReady ready, void* context) {
  check(cudaMemsetAsync(gradients_.data(), 0, size_t(network_.size) * sizeof(float), stream()),
        "cudaMemsetAsync");
  load_report(0, report_values);
  for (const int32_t operation : announced_) ready(context, operation);
}

void DeviceSession::update(int64_t first, int64_t count, const DlflowGpuSgd& options) {
  const Piece trained = piece(first, count, 0, network_.trainable_size);
  sgd({.weights = weights_.data() + trained.first,
       .velocity = velocity_.data() + trained.first,
       .gradients = gradients_.data() + trained.first,
       .count = trained.count},
      options, broken(), stream());
  const Piece statistics = piece(first, count, network_.trainable_size, network_.size);
  move_statistics(weights_.data() + statistics.first, gradients_.data() + statistics.first,
                  statistics.count, network_.statistics_momentum, stream());
}

const float* DeviceSession::end_step() {
  copy(report_here_.data(), report(), network_.report_size + 1, cudaMemcpyDeviceToHost, stream());
  return report_here_.data();
}

void DeviceSession::infer(Totals& totals) {
  const Passes& passes = recorded(staging_.batch());
  staging_.take(values_[0].data.data(), labels_.data(), stream());
  passes.inference->launch(stream());
  copy(totals_here_.data(), totals_.data(), 1, cudaMemcpyDeviceToHost, stream());
  check(cudaStreamSynchronize(stream()), "evaluating");
  totals = *totals_here_.data();
}

}  // namespace dlflow::cuda
