#include <optional>

#include "runtime/nn/assembly.h"
#include "runtime/nn/convolution_passes.h"
#include "runtime/nn/map_kernels.h"

namespace dlflow::runtime {
namespace {

using dnnl::memory;

memory::dims transposed_dims(const Layer& layer, int64_t channels) {
  return {channels, layer.units, layer.kernel.height, layer.kernel.width};
}

/// The transposed convolution is the gradient of a convolution that goes the other way: from the
/// layer's result, a map of `channels` channels, to what it reads. So its forward pass is that
/// convolution's backward pass and the other way round, and its weight is (C,channels,K,K), as in
/// PyTorch.
class TransposedConvolution : public Operation {
 public:
  TransposedConvolution(const Builder& builder, const Layer& layer, const memory::desc& format,
                        Value& input, Value& result)
      : layer_(layer),
        plain_(format == builder.plain_format(layer.shape)),
        batch_(builder.batch),
        parameters_(builder.parameters),
        x_(input),
        y_(result) {
    y_.shape = layer.shape;
    y_.data = builder.make(format);
    weight_ = parameters_.index(layer.name + ".weight");
    y_.needs_gradient = x_.needs_gradient || parameters_.trains(weight_);
    builder.read(x_.data);
    build(builder);
    if (builder.training) parameters_.prefer(weight_, weights_->diff_weights_desc());
    parameters_.prefer(weight_, back_->weights_desc());
    forward_ = dnnl::convolution_backward_data(*back_);
    forward_arguments_ = {{DNNL_ARG_DIFF_DST, x_.data},
                          {DNNL_ARG_WEIGHTS, parameters_.weight(weight_, back_->weights_desc())},
                          {DNNL_ARG_DIFF_SRC, y_.data}};
    if (!layer.bias) return;
    bias_ = parameters_.index(layer.name + ".bias");
    parameters_.prefer(bias_, {{layer.units}, memory::data_type::f32, memory::format_tag::a});
  }

  void forward(dnnl::stream& stream) override {
    forward_.execute(stream, forward_arguments_);
    if (!layer_.bias) return;
    stream.wait();
    const float* bias = parameters_.weight_slot(bias_);
    if (plain_) {
      add_bias(plain_maps(), y_.numbers(), bias);
    } else {
      add_bias(map_geometry(y_), y_.numbers(), bias);
    }
  }

  void prepare_backward(const Builder& builder) override {
    dy_ = GradientSum(builder, y_, false);
    if (trains(parameters_)) prepare_weights_backward(builder);
    if (!x_.needs_gradient) return;
    const memory dx = builder.make(x_.desc());
    x_.gradients.push_back(dx);
    data_backward_ = dnnl::convolution_forward(*onward_);
    data_arguments_ = {{DNNL_ARG_SRC, dy_.sum()},
                       {DNNL_ARG_WEIGHTS, parameters_.weight(weight_, onward_->weights_desc())},
                       {DNNL_ARG_DST, dx}};
  }

  void backward(dnnl::stream& stream) override {
    dy_.run();
    if (trains(parameters_)) weights_backward(stream);
    if (x_.needs_gradient) data_backward_.execute(stream, data_arguments_);
  }

  std::vector<size_t> parameters() const override {
    if (!layer_.bias) return {weight_};
    return {weight_, bias_};
  }

 private:
  void prepare_weights_backward(const Builder& builder) {
    builder.read(x_.data);
    weights_backward_ = dnnl::convolution_backward_weights(*weights_);
    weights_arguments_ = {
        {DNNL_ARG_SRC, dy_.sum()},
        {DNNL_ARG_DIFF_DST, x_.data},
        {DNNL_ARG_DIFF_WEIGHTS, parameters_.gradient(weight_, weights_->diff_weights_desc())}};
  }

  void weights_backward(dnnl::stream& stream) {
    weights_backward_.execute(stream, weights_arguments_);
    parameters_.finish_gradient(stream, weight_);
    if (!layer_.bias) return;
    float* bias = parameters_.gradient_slot(bias_);
    if (plain_) {
      sum_channels(plain_maps(), numbers(dy_.sum()), bias);
    } else {
      sum_channels(map_geometry(y_), layer_.units, numbers(dy_.sum()), bias);
    }
  }

  void build(const Builder& builder) {
    const auto how = dnnl::algorithm::convolution_direct;
    const memory::desc from = y_.desc(), to = x_.desc();
    const memory::dims dims = transposed_dims(layer_, x_.shape[0]);
    const memory::desc weight(dims, builder.type(), memory::format_tag::any);
    const memory::desc gradient(dims, memory::data_type::f32, memory::format_tag::any);
    const memory::dims stride = dims_of(layer_.stride), padding = dims_of(layer_.padding);
    onward_.emplace(dnnl::convolution_forward::desc(dnnl::prop_kind::forward_training, how, from,
                                                    weight, to, stride, padding, padding),
                    builder.engine());
    require_optimised(onward_->impl_info_str(), layer_);
    back_.emplace(
        dnnl::convolution_backward_data::desc(how, from, weight, to, stride, padding, padding),
        builder.engine(), *onward_);
    require_optimised(back_->impl_info_str(), layer_);
    if (!builder.training) return;
    weights_.emplace(
        dnnl::convolution_backward_weights::desc(how, from, gradient, to, stride, padding, padding),
        builder.engine(), *onward_);
    require_optimised(weights_->impl_info_str(), layer_);
  }

  PlainMaps plain_maps() const { return {batch_, layer_.units, layer_.shape[1] * layer_.shape[2]}; }

  const Layer& layer_;
  bool plain_;  // maps are in plain order
  int64_t batch_;
  ParameterMemory& parameters_;
  Value& x_;
  Value& y_;
  size_t weight_ = 0, bias_ = 0;
  std::optional<dnnl::convolution_forward::primitive_desc> onward_;
  std::optional<dnnl::convolution_backward_data::primitive_desc> back_;
  std::optional<dnnl::convolution_backward_weights::primitive_desc> weights_;
  dnnl::convolution_backward_data forward_;
  dnnl::convolution_backward_weights weights_backward_;
  dnnl::convolution_forward data_backward_;
  std::unordered_map<int, memory> forward_arguments_, weights_arguments_, data_arguments_;
  GradientSum dy_;
};

}  // namespace

Value& add_conv_transpose2d(Assembly& assembly, const Place& place) {
  const Layer& layer = place.layer;
  Value& map = assembly.input(place);
  const memory::desc blocked = assembly.next().map_format(layer.shape);
  const bool plain = !has_fast_passes(assembly.next(), layer, transposed_dims(layer, map.shape[0]),
                                      blocked, map.desc());
  Value& x = plain ? assembly.reordered(map, assembly.next().plain_format(map.shape)) : map;
  const memory::desc format = plain ? assembly.next().plain_format(layer.shape) : blocked;
  Value& y = assembly.add([&](Value& result) {
    return std::make_unique<TransposedConvolution>(assembly.next(), layer, format, x, result);
  });
  return plain ? assembly.reordered(y, blocked) : y;
}

}  // namespace dlflow::runtime
