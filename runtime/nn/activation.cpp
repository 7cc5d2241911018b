#include "runtime/nn/assembly.h"

namespace dlflow::runtime {
namespace {

using dnnl::algorithm;
using dnnl::memory;

/// An elementwise function, computed by oneDNN. A padded map is passed as a flat list of numbers,
/// since oneDNN has only reference code for padded maps.
class Activation : public UnaryOperation {
 public:
  Activation(const Builder& builder, const Layer& layer, ElementwiseFunction function, Value& input,
             Value& result)
      : UnaryOperation(builder, input, result, input.shape, input.desc()),
        layer_(layer),
        function_(function) {
    from_ = as_list(builder, x_.data);
    to_ = as_list(builder, y_.data);
    descriptor_ = elementwise(builder.engine(), function, from_.get_desc());
    require_optimised(descriptor_.impl_info_str(), layer);
    forward_ = dnnl::eltwise_forward(descriptor_);
  }

  void forward(dnnl::stream& stream) override {
    forward_.execute(stream, {{DNNL_ARG_SRC, from_}, {DNNL_ARG_DST, to_}});
    if (function_.what != algorithm::eltwise_logistic || !is_padded(y_.desc())) return;
    stream.wait();
    clear_padding(map_geometry(y_), y_.shape[0], y_.numbers());  // sigmoid(0) is 0.5
  }

  void prepare_backward(const Builder& builder) override {
    UnaryOperation::prepare_backward(builder);
    builder.read(x_.data);
    dy_list_ = as_list(builder, dy());
    dx_list_ = as_list(builder, dx());
    const auto backward = elementwise_back(builder.engine(), descriptor_, function_, to_.get_desc(),
                                           from_.get_desc());
    require_optimised(backward.impl_info_str(), layer_);
    backward_ = dnnl::eltwise_backward(backward);
  }

 private:
  /// The gradient of the padding is 0 and stays 0.
  void pass_back(dnnl::stream& stream) override {
    backward_.execute(
        stream,
        {{DNNL_ARG_SRC, from_}, {DNNL_ARG_DIFF_DST, dy_list_}, {DNNL_ARG_DIFF_SRC, dx_list_}});
  }

  static memory as_list(const Builder& builder, const memory& numbers) {
    const memory::desc desc = numbers.get_desc();
    if (!is_padded(desc)) return numbers;
    const auto size = memory::dim(desc.get_size() / memory::data_type_size(type_of(desc)));
    return builder.arena.view(numbers, {{size}, type_of(desc), memory::format_tag::a});
  }

  const Layer& layer_;
  ElementwiseFunction function_;
  memory from_, to_, dy_list_, dx_list_;
  dnnl::eltwise_forward::primitive_desc descriptor_;
  dnnl::eltwise_forward forward_;
  dnnl::eltwise_backward backward_;
};

Value& add_activation(Assembly& assembly, const LayerNode& node, ElementwiseFunction function) {
  return assembly.add<Activation>(node.layer, function, assembly.input(node));
}

}  // namespace

Value& add_gelu(Assembly& assembly, const LayerNode& node) {
  return add_activation(assembly, node, {algorithm::eltwise_gelu_erf});
}

Value& add_sigmoid(Assembly& assembly, const LayerNode& node) {
  return add_activation(assembly, node, {algorithm::eltwise_logistic});
}

Value& add_silu(Assembly& assembly, const LayerNode& node) {
  return add_activation(assembly, node, {algorithm::eltwise_swish, 1});
}

Value& add_tanh(Assembly& assembly, const LayerNode& node) {
  return add_activation(assembly, node, {algorithm::eltwise_tanh});
}

Value& add_relu6(Assembly& assembly, const LayerNode& node) {
  return add_activation(assembly, node, {algorithm::eltwise_clip, 0, 6});
}

Value& add_leaky_relu(Assembly& assembly, const LayerNode& node) {
  return add_activation(assembly, node, {algorithm::eltwise_relu, float(node.layer.slope)});
}

}  // namespace dlflow::runtime
