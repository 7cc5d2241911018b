#include "runtime/nn/assembly.h"

#include <algorithm>

#include "base/error.h"

namespace dlflow::runtime {

Assembly::Assembly(const Model& model, const std::vector<FusedLayer>& layers,
                   const Execution& execution)
    : model_(model), layers_(layers), execution_(execution) {
  DLFLOW_CHECK(execution.batch > 0);
  images_ = &images_as(model.input);
  for (size_t i = 0; i < layers.size(); ++i) {
    layer_under_way_ = layer_of(i).name;
    results_.push_back(add_layer({i, layer_of(i), layers[i].relu, layers[i].capped}));
  }
  results_.back() = &plain(*results_.back());
}

Builder Assembly::builder(int time) const {
  const Execution& e = execution_;
  return {e.arena,   e.parameters, e.batch,    e.training, e.joint,
          e.compute, &e.draws,     &e.lengths, time};
}

Value* Assembly::add_layer(const LayerNode& node) {
  switch (node.layer.kind) {
#define DLFLOW_LAYER(Kind, word, required, optional, relu, gpu) \
  case LayerKind::Kind:                                         \
    return &add_##word(*this, node);
#include "runtime/nn/layers.def"
#undef DLFLOW_LAYER
  }
  return nullptr;
}

void Assembly::prepare_backward() {
  const int end = int(operations_.size());
  for (int i = end; i-- > 0;) {
    const PlacedOperation& placed = operations_[size_t(i)];
    if (!placed.result->needs_gradient) continue;
    layer_under_way_ = placed.forward_name;
    with_layer_named([&] { placed.operation->prepare_backward(builder(2 * end - i)); });
  }
}

void Assembly::append(std::unique_ptr<Operation> operation, Value& result) {
  std::vector<size_t> parameters = operation->parameters();
  std::vector<size_t> shared = operation->shared_parameters();
  operations_.push_back({std::move(operation), &result, layer_under_way_,
                         layer_under_way_ + " backward", layer_under_way_ + " again",
                         std::move(parameters), std::move(shared)});
}

void Assembly::bind(const float* images) {
  for (dnnl::memory& view : image_views_) {
    view.set_data_handle(const_cast<float*>(images));  // oneDNN has no const memory
  }
}

Value& Assembly::images_as(const TensorShape& shape) {
  Value& value = values_.emplace_back();
  value.data = dnnl::memory(plain_floats(execution_.batch, shape), execution_.parameters.engine(),
                            DNNL_MEMORY_NONE);
  value.shape = shape;
  image_views_.push_back(value.data);
  return value;
}

const TensorShape& Assembly::input_shape(const LayerNode& node) const {
  const int index = layers_[node.index].inputs[0];
  return index == kImages ? model_.input : results_[size_t(index)]->shape;
}

Value* Assembly::second_input(const LayerNode& node) {
  const std::vector<int>& inputs = layers_[node.index].inputs;
  return inputs.size() > 1 ? &value(inputs[1]) : nullptr;
}

std::vector<Value*> Assembly::inputs(const LayerNode& node) {
  std::vector<Value*> values;
  for (const int input : layers_[node.index].inputs) values.push_back(&value(input));
  return values;
}

Value& Assembly::value(int index) {
  if (index != kImages) return *results_[size_t(index)];
  if (converted_images_ == nullptr) {
    const bool map = images_->shape.size() == 3;
    converted_images_ =
        map ? &reordered(*images_, next().map_format(images_->shape)) : &rows(*images_);
  }
  return *converted_images_;
}

/// oneDNN's linear layers take maps in any format, but with bf16 this prevents the use of AMX. A
/// given layout decides: its weights have a dimension for each dimension of the input.
bool Assembly::takes_maps(const Layer& linear) const {
  const ParameterMemory& parameters = execution_.parameters;
  const size_t dims = parameters.num_dims(parameters.index(model_.weight_of(linear)));
  return dims > 0 ? dims > 2 : execution_.compute == Compute::Float32;
}

bool Assembly::read_by_linear_only(const LayerNode& node) const {
  if (node.index + 1 == layers_.size()) return false;
  for (size_t j = node.index + 1; j < layers_.size(); ++j) {
    const bool reads = std::ranges::count(layers_[j].inputs, int(node.index)) > 0;
    const Layer& reader = layer_of(j);
    if (reads && (reader.kind != LayerKind::Linear || !takes_maps(reader))) return false;
  }
  return true;
}

Value& Assembly::rows(Value& x, dnnl::memory::data_type type) {
  if (type_of(x.desc()) == type) return x;
  return reordered(x, {dimensions(x.desc()), type, dnnl::memory::format_tag::nc});
}

/// Returns `x` in fp32 and plain order.
Value& Assembly::plain(Value& x) {
  if (x.shape.size() != 3) return rows(x, dnnl::memory::data_type::f32);
  return reordered(x, plain_floats(execution_.batch, x.shape));
}

Value& Assembly::reordered(Value& x, const dnnl::memory::desc& format) {
  return add_made([&](Value& result) {
    result.shape = x.shape;
    return make_reorder(next(), format, format, x, result);
  });
}

Value& Assembly::flat(Value& map, const TensorShape& from, const TensorShape& shape) {
  return add_made([&](Value& result) {
    result.shape = shape;
    return make_reorder(next(), next().plain_format(from), next().plain_format(shape), map, result);
  });
}

}  // namespace dlflow::runtime
