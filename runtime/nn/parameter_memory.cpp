#include "runtime/nn/parameter_memory.h"

#include <utility>

#include "base/error.h"
#include "runtime/nn/layer_shapes.h"

namespace dlflow::runtime {
namespace {

/// All parameters of `model`: trainable ones in the order of `layers`, so that the backward pass
/// finishes them from last to first; then the statistics; then frozen layers.
std::vector<Parameter> parameters_of(const Model& model, const std::vector<FusedLayer>& layers) {
  std::vector<Parameter> trainable, statistics, frozen;
  for (const FusedLayer& fused : layers) {
    const Layer& layer = model.layers[size_t(fused.layer)];
    for (LayerTensor& tensor : tensors_of(layer, model.shape_of(layer.inputs[0]))) {
      auto& kind = layer.frozen ? frozen : tensor.trainable ? trainable : statistics;
      Parameter& parameter = kind.emplace_back();
      parameter = {layer.name + "." + tensor.name,
                   std::move(tensor.shape),
                   tensor.fan_in,
                   tensor.initial,
                   tensor.trainable && !layer.frozen,
                   tensor.bound,
                   tensor.deviation};
      parameter.frozen = layer.frozen;
    }
  }
  trainable.insert(trainable.end(), statistics.begin(), statistics.end());
  trainable.insert(trainable.end(), frozen.begin(), frozen.end());
  return trainable;
}

}  // namespace

ParameterMemory::ParameterMemory(const Model& model, const std::vector<FusedLayer>& layers,
                                 std::shared_ptr<const WeightLayout> layout)
    : layout_(std::move(layout)),
      engine_(layout_ ? layout_->engine_ : dnnl::engine(dnnl::engine::kind::cpu, 0)) {
  for (Parameter& parameter : parameters_of(model, layers)) {
    indices_[parameter.name] = slots_.size();
    slots_.emplace_back().parameter = std::move(parameter);
  }
  if (!layout_) return;
  DLFLOW_CHECK(layout_->parameters().size() == slots_.size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    DLFLOW_CHECK(layout_->parameters()[i].name == slots_[i].parameter.name);
    prefer(i, layout_->formats_[i]);
  }
}

void ParameterMemory::prefer(size_t index, const dnnl::memory::desc& format) {
  Slot& slot = slots_[index];
  if (slot.has_format) return;
  slot.has_format = true;
  slot.format = format;
  slot.weight = dnnl::memory(format, engine_, DNNL_MEMORY_NONE);
  slot.gradient = dnnl::memory(format, engine_, DNNL_MEMORY_NONE);
}

size_t ParameterMemory::plain(const std::string& name, const dnnl::memory::dims& shape) {
  using Tag = dnnl::memory::format_tag;
  const size_t i = index(name);
  prefer(i, {shape, dnnl::memory::data_type::f32, shape.size() == 1 ? Tag::a : Tag::ab});
  return i;
}

size_t ParameterMemory::num_dims(size_t index) const {
  const Slot& slot = slots_[index];
  return slot.has_format ? dimensions(slot.format).size() : 0;
}

std::unique_ptr<ParameterMemory::Copy> ParameterMemory::make_copy(
    const dnnl::memory::desc& format) const {
  auto copy = std::make_unique<Copy>();
  copy->storage = HugeBuffer((format.get_size() + sizeof(float) - 1) / sizeof(float));
  copy->memory = dnnl::memory(format, engine_, copy->storage.data());
  return copy;
}

dnnl::memory ParameterMemory::weight(size_t index, const dnnl::memory::desc& format) {
  Slot& slot = slots_[index];
  if (format == slot.format) return slot.weight;
  for (const auto& copy : slot.weight_copies) {
    if (copy->memory.get_desc() == format) return copy->memory;
  }
  auto copy = make_copy(format);
  copy->convert = dnnl::reorder(slot.weight, copy->memory);
  slot.weight_copies.push_back(std::move(copy));
  return slot.weight_copies.back()->memory;
}

dnnl::memory ParameterMemory::gradient(size_t index, const dnnl::memory::desc& format) {
  Slot& slot = slots_[index];
  if (format == slot.format) return slot.gradient;
  slot.gradient_copy = make_copy(format);
  slot.gradient_copy->convert = dnnl::reorder(slot.gradient_copy->memory, slot.gradient);
  return slot.gradient_copy->memory;
}

void ParameterMemory::prefer_plain() {
  for (size_t i = 0; i < slots_.size(); ++i) prefer(i, plain_order(slots_[i].parameter.shape));
}

std::shared_ptr<const WeightLayout> ParameterMemory::finish() {
  if (!layout_) {
    auto layout = std::make_shared<WeightLayout>();
    layout->engine_ = engine_;
    for (const Slot& slot : slots_) {
      Parameter parameter = slot.parameter;
      parameter.offset = layout->size_;
      parameter.size = (slot.format.get_size() / sizeof(float) + 15) / 16 * 16;
      layout->size_ += parameter.size;
      if (parameter.trainable) {
        layout->num_trainable_ += 1;
        layout->trainable_size_ = layout->size_;
      }
      if (!parameter.frozen) {
        layout->num_exchanged_ += 1;
        layout->exchanged_size_ = layout->size_;
      }
      layout->parameters_.push_back(std::move(parameter));
      layout->formats_.push_back(slot.format);
    }
    layout_ = std::move(layout);
  }
  frozen_gradients_ = HugeBuffer(layout_->size() - layout_->exchanged_size());
  frozen_slots_ = frozen_gradients_.data();
  for (size_t i = layout_->num_exchanged(); i < slots_.size(); ++i) {
    slots_[i].gradient.set_data_handle(gradient_slot(i));
  }
  return layout_;
}

void ParameterMemory::bind_weights(std::span<const float> weights) {
  DLFLOW_CHECK(weights.size() == layout_->size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].stale = true;
    if (weights_ == weights.data()) continue;
    const float* slot = weights.data() + layout_->parameters()[i].offset;
    slots_[i].weight.set_data_handle(const_cast<float*>(slot));  // oneDNN has no const memory
  }
  weights_ = weights.data();
}

void ParameterMemory::refresh_weight(dnnl::stream& stream, size_t index,
                                     const std::function<void(size_t)>& before) {
  Slot& slot = slots_[index];
  if (!std::exchange(slot.stale, false)) return;
  if (before) before(index);
  for (const auto& copy : slot.weight_copies) {
    copy->convert.execute(stream, slot.weight, copy->memory);
  }
}

void ParameterMemory::bind_gradients(std::span<float> gradients) {
  DLFLOW_CHECK(gradients.size() == layout_->exchanged_size());
  if (gradients_ == gradients.data()) return;
  for (size_t i = 0; i < layout_->num_exchanged(); ++i) {
    slots_[i].gradient.set_data_handle(gradients.data() + layout_->parameters()[i].offset);
  }
  gradients_ = gradients.data();
}

const float* ParameterMemory::weight_slot(size_t index) const {
  return weights_ + layout_->parameters()[index].offset;
}

float* ParameterMemory::gradient_slot(size_t index) const {
  const size_t offset = layout_->parameters()[index].offset;
  if (offset < layout_->exchanged_size()) return gradients_ + offset;
  return frozen_slots_ + (offset - layout_->exchanged_size());
}

void ParameterMemory::finish_gradient(dnnl::stream& stream, size_t index) {
  Slot& slot = slots_[index];
  if (!slot.gradient_copy) return;
  slot.gradient_copy->convert.execute(stream, slot.gradient_copy->memory, slot.gradient);
}

std::shared_ptr<const WeightLayout> plain_layout(const Model& model) {
  ParameterMemory parameters(model, fuse(model), nullptr);
  parameters.prefer_plain();
  return parameters.finish();
}

}  // namespace dlflow::runtime
