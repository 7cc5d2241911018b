#include <cstring>

#include "runtime/nn/assembly.h"

namespace dlflow::runtime {
namespace {

using dnnl::algorithm;
using dnnl::memory;

/// The channels of a map do not fill its last group of 16.
bool is_padded(const memory::desc& desc) {
  return desc.data.ndims > 1 && desc.data.padded_dims[1] != desc.data.dims[1];
}

/// A function of each number by itself, by oneDNN. A map with padding is taken as a list of
/// numbers: for a map that oneDNN has to keep padded it has only its reference code.
class Activation : public Operation {
 public:
  Activation(const Builder& builder, const Layer& layer, algorithm function, Value& input,
             Value& result)
      : layer_(layer), function_(function), x_(input), y_(result) {
    y_.shape = input.shape;
    y_.data = builder.make(x_.desc());
    y_.needs_gradient = x_.needs_gradient;
    builder.read(x_.data);
    from_ = as_list(builder, x_.data);
    to_ = as_list(builder, y_.data);
    const dnnl::eltwise_forward::desc desc(dnnl::prop_kind::forward_training, function,
                                           from_.get_desc(), kAlpha, 0.0f);
    descriptor_ = {desc, builder.engine()};
    require_optimised(descriptor_.impl_info_str(), layer);
    forward_ = dnnl::eltwise_forward(descriptor_);
  }

  void forward(dnnl::stream& stream) override {
    forward_.execute(stream, {{DNNL_ARG_SRC, from_}, {DNNL_ARG_DST, to_}});
    if (function_ != algorithm::eltwise_logistic || !is_padded(y_.desc())) return;
    stream.wait();
    clear_padding();  // it became 0.5
  }

  void prepare_backward(const Builder& builder) override {
    dy_ = GradientSum(builder, y_, false);
    builder.read(x_.data);
    const memory dx = builder.make(x_.desc());
    x_.gradients.push_back(dx);
    dy_list_ = as_list(builder, dy_.sum());
    dx_list_ = as_list(builder, dx);
    const dnnl::eltwise_backward::desc desc(function_, to_.get_desc(), from_.get_desc(), kAlpha,
                                            0.0f);
    const dnnl::eltwise_backward::primitive_desc backward(desc, builder.engine(), descriptor_);
    require_optimised(backward.impl_info_str(), layer_);
    backward_ = dnnl::eltwise_backward(backward);
  }

  /// Where there is padding, the gradient is 0, and stays so.
  void backward(dnnl::stream& stream) override {
    dy_.run();
    backward_.execute(
        stream,
        {{DNNL_ARG_SRC, from_}, {DNNL_ARG_DIFF_DST, dy_list_}, {DNNL_ARG_DIFF_SRC, dx_list_}});
  }

 private:
  static constexpr float kAlpha = 1;  // x * sigmoid(alpha * x); the others have none

  static memory as_list(const Builder& builder, const memory& numbers) {
    const memory::desc desc = numbers.get_desc();
    if (!is_padded(desc)) return numbers;
    const auto size = memory::dim(desc.get_size() / memory::data_type_size(desc.data_type()));
    return builder.arena.view(numbers, {{size}, desc.data_type(), memory::format_tag::a});
  }

  void clear_padding() const {
    const MapGeometry g = map_geometry(y_);
    const size_t number = memory::data_type_size(y_.desc().data_type());
    const auto used = size_t(y_.desc().dims()[1] % kLanesOfGroup);
    auto* first = static_cast<char*>(y_.data.get_data_handle());
    for (int64_t image = 0; image < g.images; ++image) {
      const int64_t group = image * g.image_stride + (g.groups - 1) * g.group_stride;
      for (int64_t pixel = 0; pixel < g.pixels(); ++pixel) {
        char* lanes = first + size_t(group + pixel * g.pixel_stride) * number;
        std::memset(lanes + used * number, 0, (kLanesOfGroup - used) * number);
      }
    }
  }

  static constexpr size_t kLanesOfGroup = 16;
  const Layer& layer_;
  algorithm function_;
  Value& x_;
  Value& y_;
  memory from_, to_, dy_list_, dx_list_;
  dnnl::eltwise_forward::primitive_desc descriptor_;
  dnnl::eltwise_forward forward_;
  dnnl::eltwise_backward backward_;
  GradientSum dy_;
};

Value& add_activation(Assembly& assembly, const Place& place, algorithm function) {
  Value& x = assembly.input(place);
  return assembly.add([&](Value& y) {
    return std::make_unique<Activation>(assembly.next(), place.layer, function, x, y);
  });
}

}  // namespace

Value& add_gelu(Assembly& assembly, const Place& place) {
  return add_activation(assembly, place, algorithm::eltwise_gelu_erf);
}

Value& add_sigmoid(Assembly& assembly, const Place& place) {
  return add_activation(assembly, place, algorithm::eltwise_logistic);
}

Value& add_silu(Assembly& assembly, const Place& place) {
  return add_activation(assembly, place, algorithm::eltwise_swish);
}

Value& add_tanh(Assembly& assembly, const Place& place) {
  return add_activation(assembly, place, algorithm::eltwise_tanh);
}

}  // namespace dlflow::runtime
