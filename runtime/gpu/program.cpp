#include "runtime/gpu/program.h"

#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/nn/fusion.h"
#include "runtime/nn/kernels.h"

namespace dlflow::runtime {
namespace {

constexpr int kNotOnGpu = -1;  // in layers.def

/// By LayerKind.
constexpr int kKinds[] = {
#define DLFLOW_LAYER(Kind, word, required, optional, relu, gpu) gpu,
#include "runtime/nn/layers.def"
#undef DLFLOW_LAYER
};

[[noreturn]] void refuse(const Layer& layer, const std::string& what) {
  throw Error(Errc::InvalidInput, "layer '" + layer.name + "' (line " + std::to_string(layer.line) +
                                      "): there is no " + what +
                                      " on GPUs; train with 'device: cpu'");
}

/// Throws Error{InvalidInput} if GPUs do not support the layer. This includes sequences and tied
/// weights, which follow an embedding.
DlflowGpuKind kind_of(const Layer& layer) {
  const int kind = kKinds[size_t(layer.kind)];
  if (kind == kNotOnGpu) refuse(layer, name(layer.kind));
  if (layer.groups > 1) refuse(layer, name(layer.kind) + " with groups");
  if (layer.dilation != Extent(1)) refuse(layer, name(layer.kind) + " with dilation");
  for (const Extent& extent : {layer.kernel, layer.stride, layer.padding}) {
    if (extent.height != extent.width) refuse(layer, name(layer.kind) + " with two sizes");
  }
  return DlflowGpuKind(kind);
}

DlflowGpuValue value_of(const TensorShape& shape) {
  if (shape.size() == 1) return {shape[0], 1, 1, 0};
  return {shape[0], shape[1], shape[2], 0};
}

class Translation {
 public:
  Translation(const Model& model, const WeightLayout& layout) : model_(model), fused_(fuse(model)) {
    program_.layout = &layout;
    for (size_t i = 0; i < layout.parameters().size(); ++i) {
      parameters_[layout.parameters()[i].name] = i;
    }
  }

  Program run() {
    if (model_.loss != LossKind::SoftmaxCrossEntropy) {
      throw Error(Errc::InvalidInput,
                  "model '" + model_.name +
                      "': GPUs support only the loss softmax_cross_entropy; train "
                      "with 'device: cpu'");
    }
    program_.values.push_back(value_of(model_.input));
    for (const FusedLayer& fused : fused_) results_.push_back(add(fused));
    find_gradients();
    find_first_parameters();
    return std::move(program_);
  }

 private:
  int32_t value(int fused_index) const {
    return fused_index == kImages ? 0 : results_[size_t(fused_index)];
  }

  /// Adds a layer, and returns the value that holds its result.
  int32_t add(const FusedLayer& fused) {
    const Layer& layer = model_.layers[size_t(fused.layer)];
    const int32_t input = value(fused.inputs[0]);
    if (layer.kind == LayerKind::Flatten) return input;  // no change in plain order
    DlflowGpuOperation operation = {};
    operation.kind = kind_of(layer);
    if (fused.capped) refuse(layer, "relu6 behind batch_norm");
    operation.relu = fused.relu || layer.kind == LayerKind::Relu;
    operation.input = input;
    operation.second = fused.inputs.size() > 1 ? value(fused.inputs[1]) : -1;
    operation.output = int32_t(program_.values.size());
    operation.weight = place_of(layer, "weight");
    operation.bias = place_of(layer, "bias");
    operation.mean = place_of(layer, "running_mean");
    operation.variance = place_of(layer, "running_var");
    set_window(layer, operation);
    DlflowGpuValue result = value_of(layer.shape);
    result.has_gradient = operation.weight >= 0 || has_gradient(input) ||
                          (operation.second >= 0 && has_gradient(operation.second));
    program_.values.push_back(result);
    program_.operations.push_back(operation);
    return operation.output;
  }

  bool has_gradient(int32_t value) const {
    return program_.values[size_t(value)].has_gradient != 0;
  }

  int64_t place_of(const Layer& layer, const char* what) const {
    const auto found = parameters_.find(layer.name + "." + what);
    if (found == parameters_.end()) return -1;
    return int64_t(program_.layout->parameters()[found->second].offset);
  }

  /// A global pool is a single window over the whole map.
  void set_window(const Layer& layer, DlflowGpuOperation& operation) const {
    operation.kernel_height = int32_t(layer.kernel.height);
    operation.kernel_width = int32_t(layer.kernel.width);
    operation.stride = int32_t(layer.stride.height);
    operation.padding = int32_t(layer.padding.height);
    if (layer.kind != LayerKind::GlobalAvgPool) return;
    const DlflowGpuValue& map = program_.values[size_t(operation.input)];
    operation.kernel_height = int32_t(map.height);
    operation.kernel_width = int32_t(map.width);
    operation.stride = 1;
    operation.padding = 0;
  }

  /// In the order of the backward pass, a value's first reader writes its gradient; others add.
  void find_gradients() {
    std::vector<bool> written(program_.values.size());
    const auto next = [&](int32_t value) {
      if (value < 0 || !has_gradient(value)) return DLFLOW_GPU_NO_GRADIENT;
      const bool first = !written[size_t(value)];
      written[size_t(value)] = true;
      return first ? DLFLOW_GPU_WRITE : DLFLOW_GPU_ADD_TO;
    };
    for (size_t i = program_.operations.size(); i-- > 0;) {
      DlflowGpuOperation& operation = program_.operations[i];
      operation.input_gradient = next(operation.input);
      operation.second_gradient = next(operation.second);
    }
  }

  void find_first_parameters() {
    size_t first = program_.layout->num_trainable();
    program_.first_parameter.resize(program_.operations.size());
    for (size_t i = program_.operations.size(); i-- > 0;) {
      const DlflowGpuOperation& operation = program_.operations[i];
      if (operation.weight >= 0) first = number_at(operation.weight);
      program_.first_parameter[i] = first;
    }
  }

  size_t number_at(int64_t offset) const {
    size_t i = 0;
    while (int64_t(program_.layout->parameters()[i].offset) != offset) ++i;
    return i;
  }

  const Model& model_;
  const std::vector<FusedLayer> fused_;
  std::map<std::string, size_t> parameters_;
  std::vector<int32_t> results_;  // by fused layer
  Program program_;
};

}  // namespace

DlflowGpuNetwork Program::network(int64_t max_batch, size_t report_size) const {
  DlflowGpuNetwork network = {};
  network.values = values.data();
  network.num_values = int32_t(values.size());
  network.operations = operations.data();
  network.num_operations = int32_t(operations.size());
  network.trainable_size = int64_t(layout->trainable_size());
  network.size = int64_t(layout->size());
  network.report_size = int64_t(report_size);
  network.max_batch = max_batch;
  network.tensor_float32 = tensor_float32 ? 1 : 0;
  network.announced = announced.data();
  network.num_announced = int32_t(announced.size());
  network.statistics_momentum = kStatisticsMomentum;
  network.batch_norm_epsilon = kBatchNormEpsilon;
  return network;
}

Program make_program(const Model& model, const WeightLayout& layout) {
  return Translation(model, layout).run();
}

}  // namespace dlflow::runtime
