#include "runtime/nn/operation.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace dlflow::runtime {
namespace {

using dnnl::memory;

/// A sequence is a matrix with a row for each position of each sample.
memory::dims dims_of(int64_t batch, const TensorShape& shape) {
  if (shape.size() == 2) return {batch * shape[0], shape[1]};
  memory::dims dims = {batch};
  dims.insert(dims.end(), shape.begin(), shape.end());
  return dims;
}

constexpr int64_t kLanesOfGroup = 16;

memory::format_tag plain_tag(const TensorShape& shape) {
  return shape.size() == 3 ? memory::format_tag::nchw : memory::format_tag::nc;
}

}  // namespace

size_t Value::count() const { return desc().get_size() / memory::data_type_size(type_of(desc())); }

Numbers Value::numbers() const { return runtime::numbers(data); }

memory::data_type Builder::type() const {
  return compute == Compute::Float32 ? memory::data_type::f32 : memory::data_type::bf16;
}

memory::desc Builder::map_format(const TensorShape& shape) const {
  const bool blocks =
      compute == Compute::Float32 && dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  return {dims_of(batch, shape), type(),
          blocks ? memory::format_tag::nChw16c : memory::format_tag::nhwc};
}

memory::desc Builder::plain_format(const TensorShape& shape) const {
  return {dims_of(batch, shape), type(), plain_tag(shape)};
}

memory::desc plain_floats(int64_t batch, const TensorShape& shape) {
  return {dims_of(batch, shape), memory::data_type::f32, plain_tag(shape)};
}

Numbers numbers(const memory& memory) {
  if (!memory) return {};
  return {memory.get_data_handle(), type_of(memory.get_desc()) == memory::data_type::bf16};
}

MapGeometry map_geometry(const Value& value) {
  const memory::dims dims = dimensions(value.desc());
  const int64_t channels = dims[1];
  MapGeometry g;
  g.images = dims[0];
  g.height = dims.size() == 4 ? dims[2] : 1;
  g.width = dims.size() == 4 ? dims[3] : 1;
  g.groups = (channels + 15) / 16;
  const bool blocked = !format_of(value.desc()).block_sizes.empty();
  g.last_group = blocked ? 16 : channels - (g.groups - 1) * 16;
  g.pixel_stride = blocked ? 16 : channels;
  g.group_stride = blocked ? g.pixels() * 16 : 16;
  g.image_stride = g.pixels() * (blocked ? g.groups * 16 : channels);
  return g;
}

bool is_padded(const memory::desc& desc) {
  const memory::dims dims = dimensions(desc);
  return dims.size() > 1 && format_of(desc).padded[1] != dims[1];
}

void clear_padding(const MapGeometry& g, int64_t channels, Numbers map) {
  if (g.group_stride == kLanesOfGroup || channels % kLanesOfGroup == 0) return;
  const size_t number = map.is_bf16 ? 2 : 4;
  const auto used = size_t(channels % kLanesOfGroup);
  for (int64_t image = 0; image < g.images; ++image) {
    const int64_t group = image * g.image_stride + (g.groups - 1) * g.group_stride;
    for (int64_t pixel = 0; pixel < g.pixels(); ++pixel) {
      char* lanes = map.as<char>() + size_t(group + pixel * g.pixel_stride) * number;
      std::memset(lanes + used * number, 0, (size_t(kLanesOfGroup) - used) * number);
    }
  }
}

void require_optimised(const char* implementation, const Layer& layer) {
  const std::string text = implementation;
  if (text.find("ref") == std::string::npos) return;
  const bool convolution = layer.kind == LayerKind::Conv2d;
  throw Error(Errc::InvalidInput, "layer '" + layer.name + "' (line " + std::to_string(layer.line) +
                                      "): oneDNN has only its reference code (" + text + ") for " +
                                      name(layer.kind) + " of this size on this CPU, which is a " +
                                      "hundred times slower; choose other sizes" +
                                      (convolution ? ", such as 16 or more input channels" : ""));
}

GradientSum::GradientSum(const Builder& builder, const Value& result, bool relu)
    : sum_(result.gradients.at(0)),
      more_(result.gradients.begin() + 1, result.gradients.end()),
      count_(result.count()) {
  if (relu) mask_ = result.data;
  for (const memory& gradient : result.gradients) builder.read(gradient);
  if (relu) builder.read(result.data);
}

void GradientSum::run() const {
  if (more_.empty() && !mask_) return;
  for (size_t i = 0; i + 1 < more_.size(); ++i) {
    finish_gradient(numbers(sum_), numbers(more_[i]), {}, count_);
  }
  finish_gradient(numbers(sum_), more_.empty() ? Numbers() : numbers(more_.back()), numbers(mask_),
                  count_);
}

bool Operation::trains(const ParameterMemory& memory) const {
  const auto is_trained = [&memory](size_t parameter) { return memory.trains(parameter); };
  return std::ranges::any_of(parameters(), is_trained) ||
         std::ranges::any_of(shared_parameters(), is_trained);
}

UnaryOperation::UnaryOperation(const Builder& builder, Value& input, Value& result,
                               const TensorShape& shape, const dnnl::memory::desc& desc)
    : x_(input), y_(result) {
  y_.shape = shape;
  y_.data = builder.make(desc);
  y_.needs_gradient = x_.needs_gradient;
  builder.read(x_.data);
}

void UnaryOperation::prepare_backward(const Builder& builder) {
  dy_ = GradientSum(builder, y_, false);
  dx_ = builder.make(x_.desc());
  x_.gradients.push_back(dx_);
}

void UnaryOperation::share_gradient(const Builder& builder, bool relu) {
  dy_ = GradientSum(builder, y_, relu);
  x_.gradients.push_back(dy_.sum());
}

void UnaryOperation::backward(dnnl::stream& stream) {
  dy_.run();
  pass_back(stream);
}

WeightedOperation::WeightedOperation(const Builder& builder, const Layer& layer,
                                     const std::string& weight, bool relu, int64_t bias,
                                     Value& input, Value& result)
    : layer_(layer),
      relu_(relu),
      has_bias_(bias > 0),
      parameters_(builder.parameters),
      x_(input),
      y_(result),
      weight_index_(parameters_.index(weight)) {
  if (has_bias_) {
    bias_index_ = parameters_.plain(layer.name + ".bias", {bias});
    bias_format_ = {{bias}, memory::data_type::f32, memory::format_tag::a};
  }
  y_.shape = layer.shape;
  y_.needs_gradient = x_.needs_gradient || trains(parameters_);
  builder.read(x_.data);
}

std::vector<size_t> WeightedOperation::parameters() const {
  std::vector<size_t> own;
  if (layer_.tied == kImages) own.push_back(weight_index_);
  if (has_bias_) own.push_back(bias_index_);
  return own;
}

std::vector<size_t> WeightedOperation::shared_parameters() const {
  if (layer_.tied == kImages) return {};
  return {weight_index_};
}

WeightedOperation::Arguments WeightedOperation::forward_arguments(
    const memory::desc& weight) const {
  Arguments arguments = {{DNNL_ARG_SRC, x_.data},
                         {DNNL_ARG_WEIGHTS, parameters_.weight(weight_index_, weight)},
                         {DNNL_ARG_DST, y_.data}};
  if (has_bias_) arguments[DNNL_ARG_BIAS] = parameters_.weight(bias_index_, bias_format_);
  return arguments;
}

WeightedOperation::Arguments WeightedOperation::weights_arguments(
    const Builder& builder, const memory::desc& gradient) const {
  builder.read(x_.data);
  Arguments arguments = {{DNNL_ARG_SRC, x_.data},
                         {DNNL_ARG_DIFF_DST, dy_.sum()},
                         {DNNL_ARG_DIFF_WEIGHTS, parameters_.gradient(weight_index_, gradient)}};
  if (has_bias_) {
    arguments[DNNL_ARG_DIFF_BIAS] = parameters_.gradient(bias_index_, bias_format_);
  }
  return arguments;
}

WeightedOperation::Arguments WeightedOperation::data_arguments(const memory::desc& weight,
                                                               const memory& dx) const {
  return {{DNNL_ARG_DIFF_DST, dy_.sum()},
          {DNNL_ARG_WEIGHTS, parameters_.weight(weight_index_, weight)},
          {DNNL_ARG_DIFF_SRC, dx}};
}

memory WeightedOperation::make_dx(const Builder& builder) {
  x_.gradients.push_back(builder.make(x_.desc()));
  return x_.gradients.back();
}

const float* WeightedOperation::bias() const {
  return has_bias_ ? parameters_.weight_slot(bias_index_) : nullptr;
}

float* WeightedOperation::bias_gradient() const {
  return has_bias_ ? parameters_.gradient_slot(bias_index_) : nullptr;
}

dnnl::primitive_attr relu_behind(bool relu) {
  dnnl::primitive_attr attributes;
  if (!relu) return attributes;
  dnnl::post_ops then;
  append_relu(then);
  attributes.set_post_ops(then);
  return attributes;
}

}  // namespace dlflow::runtime
