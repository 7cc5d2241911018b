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

/// A transposed convolution is the gradient of a convolution in the opposite direction: from the
/// layer's result, a map of `channels` channels, to its input. So its forward pass is that
/// convolution's backward pass and vice versa, and its weight is (C,channels,K,K), as in PyTorch.
class TransposedConvolution : public WeightedOperation {
 public:
  TransposedConvolution(const Builder& builder, const Layer& layer, const memory::desc& format,
                        Value& input, Value& result)
      : WeightedOperation(builder, layer, false, input, result),
        plain_(format == builder.plain_format(layer.shape)),
        batch_(builder.batch) {
    y_.data = builder.make(format);
    build(builder);
    if (builder.training) parameters_.prefer(weight_index_, weights_->diff_weights_desc());
    parameters_.prefer(weight_index_, back_->weights_desc());
    forward_ = dnnl::convolution_backward_data(*back_);
    forward_arguments_ = {
        {DNNL_ARG_DIFF_DST, x_.data},
        {DNNL_ARG_WEIGHTS, parameters_.weight(weight_index_, back_->weights_desc())},
        {DNNL_ARG_DIFF_SRC, y_.data}};
  }

  void forward(dnnl::stream& stream) override {
    forward_.execute(stream, forward_arguments_);
    if (!layer_.bias) return;
    stream.wait();
    if (plain_) {
      add_bias(plain_maps(), y_.numbers(), bias());
    } else {
      add_bias(map_geometry(y_), y_.numbers(), bias());
    }
  }

  void prepare_backward(const Builder& builder) override {
    dy_ = GradientSum(builder, y_, false);
    if (trains(parameters_)) prepare_weights_backward(builder);
    if (!x_.needs_gradient) return;
    data_backward_ = dnnl::convolution_forward(*onward_);
    data_arguments_ = {
        {DNNL_ARG_SRC, dy_.sum()},
        {DNNL_ARG_WEIGHTS, parameters_.weight(weight_index_, onward_->weights_desc())},
        {DNNL_ARG_DST, make_dx(builder)}};
  }

  void backward(dnnl::stream& stream) override {
    dy_.run();
    if (trains(parameters_)) weights_backward(stream);
    if (x_.needs_gradient) data_backward_.execute(stream, data_arguments_);
  }

 private:
  void prepare_weights_backward(const Builder& builder) {
    builder.read(x_.data);
    weights_backward_ = dnnl::convolution_backward_weights(*weights_);
    weights_arguments_ = {{DNNL_ARG_SRC, dy_.sum()},
                          {DNNL_ARG_DIFF_DST, x_.data},
                          {DNNL_ARG_DIFF_WEIGHTS,
                           parameters_.gradient(weight_index_, weights_->diff_weights_desc())}};
  }

  void weights_backward(dnnl::stream& stream) {
    weights_backward_.execute(stream, weights_arguments_);
    parameters_.finish_gradient(stream, weight_index_);
    if (!layer_.bias) return;
    if (plain_) {
      sum_channels(plain_maps(), numbers(dy_.sum()), bias_gradient());
    } else {
      sum_channels(map_geometry(y_), layer_.units, numbers(dy_.sum()), bias_gradient());
    }
  }

  void build(const Builder& builder) {
    const auto how = dnnl::algorithm::convolution_direct;
    const memory::desc from = y_.desc(), to = x_.desc();
    const memory::dims dims = transposed_dims(layer_, x_.shape[0]);
    const memory::desc weight(dims, builder.type(), memory::format_tag::any);
    const memory::desc gradient(dims, memory::data_type::f32, memory::format_tag::any);
    const memory::dims stride = dims_of(layer_.stride), padding = dims_of(layer_.padding);
    onward_ = forward_primitive<dnnl::convolution_forward>(
        builder.engine(), {}, dnnl::prop_kind::forward_training, how, from, weight, to, stride,
        padding, padding);
    require_optimised(onward_->impl_info_str(), layer_);
    back_ = backward_primitive<dnnl::convolution_backward_data>(
        builder.engine(), *onward_, how, from, weight, to, stride, padding, padding);
    require_optimised(back_->impl_info_str(), layer_);
    if (!builder.training) return;
    weights_ = backward_primitive<dnnl::convolution_backward_weights>(
        builder.engine(), *onward_, how, from, gradient, to, stride, padding, padding);
    require_optimised(weights_->impl_info_str(), layer_);
  }

  PlainMaps plain_maps() const { return {batch_, layer_.units, layer_.shape[1] * layer_.shape[2]}; }

  bool plain_;  // maps are in plain order
  int64_t batch_;
  std::optional<dnnl::convolution_forward::primitive_desc> onward_;
  std::optional<dnnl::convolution_backward_data::primitive_desc> back_;
  std::optional<dnnl::convolution_backward_weights::primitive_desc> weights_;
  dnnl::convolution_backward_data forward_;
  dnnl::convolution_backward_weights weights_backward_;
  dnnl::convolution_forward data_backward_;
  Arguments forward_arguments_, weights_arguments_, data_arguments_;
};

}  // namespace

Value& add_conv_transpose2d(Assembly& assembly, const LayerNode& node) {
  const Layer& layer = node.layer;
  Value& map = assembly.input(node);
  const memory::desc blocked = assembly.next().map_format(layer.shape);
  const bool plain = !has_fast_passes(assembly.next(), layer, transposed_dims(layer, map.shape[0]),
                                      blocked, map.desc());
  Value& x = plain ? assembly.reordered(map, assembly.next().plain_format(map.shape)) : map;
  const memory::desc format = plain ? assembly.next().plain_format(layer.shape) : blocked;
  Value& y = assembly.add<TransposedConvolution>(layer, format, x);
  return plain ? assembly.reordered(y, blocked) : y;
}

}  // namespace dlflow::runtime
