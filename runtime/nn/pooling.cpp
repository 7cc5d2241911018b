#include <vector>

#include "runtime/nn/assembly.h"

namespace dlflow::runtime {
namespace {

using dnnl::memory;

/// Our own kernel, five times as fast as that of oneDNN 2.6 on LeNet's map.
class MaxPool : public UnaryOperation {
 public:
  MaxPool(const Builder& builder, const Layer& layer, bool relu, Value& input, Value& result)
      : UnaryOperation(builder, input, result, layer.shape, builder.map_format(layer.shape)),
        pooling_{map_geometry(input),
                 {layer.kernel.height, layer.stride.height, layer.padding.height, layer.shape[1],
                  layer.shape[2]},
                 relu} {
    chosen_.resize(y_.count());
  }

  void forward(dnnl::stream&) override {
    max_pool_forward(pooling_, x_.numbers(), y_.numbers(), chosen_.data());
  }

 private:
  void pass_back(dnnl::stream&) override {
    max_pool_backward(pooling_, numbers(dy()), chosen_.data(), numbers(dx()));
  }

  MaxPooling pooling_;
  std::vector<uint16_t> chosen_;  // also marks outputs that ReLU cut off
};

class AveragePool : public UnaryOperation {
 public:
  AveragePool(const Builder& builder, const Layer& layer, Value& input, Value& result)
      : UnaryOperation(builder, input, result, layer.shape,
                       builder.map_format(is_global(layer) ? TensorShape{input.shape[0], 1, 1}
                                                           : layer.shape)) {
    const bool global = is_global(layer);
    const Pooling shape = {
        .how = dnnl::algorithm::pooling_avg_include_padding,
        .from = x_.desc(),
        .to = y_.desc(),
        .stride = global ? memory::dims{1, 1} : dims_of(layer.stride),
        .kernel = global ? memory::dims{x_.shape[1], x_.shape[2]} : dims_of(layer.kernel),
        .padding = dims_of(layer.padding)};
    descriptor_ = pooling(builder.engine(), shape);
    require_optimised(descriptor_.impl_info_str(), layer);
    forward_ = dnnl::pooling_forward(descriptor_);
    if (!builder.training || !x_.needs_gradient) return;
    const auto backward = pooling_back(builder.engine(), descriptor_, shape);
    require_optimised(backward.impl_info_str(), layer);
    backward_ = dnnl::pooling_backward(backward);
  }

  void forward(dnnl::stream& stream) override {
    forward_.execute(stream, {{DNNL_ARG_SRC, x_.data}, {DNNL_ARG_DST, y_.data}});
  }

 private:
  static bool is_global(const Layer& layer) { return layer.kind == LayerKind::GlobalAvgPool; }

  void pass_back(dnnl::stream& stream) override {
    backward_.execute(stream, {{DNNL_ARG_DIFF_DST, dy()}, {DNNL_ARG_DIFF_SRC, dx()}});
  }

  dnnl::pooling_forward::primitive_desc descriptor_;
  dnnl::pooling_forward forward_;
  dnnl::pooling_backward backward_;
};

}  // namespace

Value& add_max_pool(Assembly& assembly, const LayerNode& node) {
  return assembly.add<MaxPool>(node.layer, node.relu, assembly.input(node));
}

Value& add_avg_pool(Assembly& assembly, const LayerNode& node) {
  return assembly.add<AveragePool>(node.layer, assembly.input(node));
}

Value& add_global_avg_pool(Assembly& assembly, const LayerNode& node) {
  Value& map = add_avg_pool(assembly, node);
  if (assembly.read_by_linear_only(node)) return map;
  return assembly.flat(map, {assembly.input_shape(node)[0], 1, 1}, node.layer.shape);
}

}  // namespace dlflow::runtime
