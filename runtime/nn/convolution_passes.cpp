#include "runtime/nn/convolution_passes.h"

#include <string>

namespace dlflow::runtime {

bool has_fast_passes(const Builder& builder, const Layer& layer, const dnnl::memory::dims& weight,
                     const dnnl::memory::desc& x, const dnnl::memory::desc& y) {
  using dnnl::memory;
  const auto how = dnnl::algorithm::convolution_direct;
  const auto any = memory::format_tag::any;
  const memory::desc read(weight, builder.type(), any);
  const memory::desc gradient(weight, memory::data_type::f32, any);
  const memory::dims stride = dims_of(layer.stride), padding = dims_of(layer.padding);
  const memory::dims between = {layer.dilation.height - 1, layer.dilation.width - 1};
  const bool one_by_one = layer.groups > 1 && weight[1] == 1 && weight[2] == 1;
  const auto is_fast = [&](const auto& descriptor) {
    const std::string name = descriptor.impl_info_str();
    if (one_by_one && name.find("gemm") != std::string::npos) return false;
    return name.find("ref") == std::string::npos;
  };
  try {
    const dnnl::engine& engine = builder.engine();
    const auto forward = forward_primitive<dnnl::convolution_forward>(
        engine, {}, dnnl::prop_kind::forward_training, how, x, read, y, stride, between, padding,
        padding);
    const auto weights = backward_primitive<dnnl::convolution_backward_weights>(
        engine, forward, how, x, gradient, y, stride, between, padding, padding);
    const auto data = backward_primitive<dnnl::convolution_backward_data>(
        engine, forward, how, x, read, y, stride, between, padding, padding);
    return is_fast(forward) && is_fast(weights) && is_fast(data);
  } catch (const dnnl::error&) {
    return false;
  }
}

}  // namespace dlflow::runtime
