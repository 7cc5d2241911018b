#include "runtime/nn/kernel_convolution.h"

#include "runtime/nn/depthwise_kernel.h"
#include "runtime/nn/winograd_kernel.h"

namespace dlflow::runtime {
namespace {

using dnnl::memory;

Registers registers_here() {
  const bool may_be_wide = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  return may_be_wide && has(Registers::Avx512) ? Registers::Avx512 : Registers::Avx2;
}

/// The kernels of one algorithm, their shape, and the format of weights and their gradients.
struct Winograd {
  static memory::desc format(const Layer& layer, int64_t channels) {
    return {{layer.units, channels, 3, 3}, memory::data_type::f32, memory::format_tag::OIhw16i16o};
  }
  static WinogradShape shape(const Layer& layer, const MapGeometry& x, const MapGeometry& y) {
    return {x, y, layer.padding.height, layer.padding.width, registers_here()};
  }
  static constexpr auto forward = winograd_forward;
  static constexpr auto backward_data = winograd_backward_data;
  static constexpr auto backward_weights = winograd_backward_weights;
};

struct Depthwise {
  static memory::desc format(const Layer& layer, int64_t) {
    return {{layer.groups, 1, 1, layer.kernel.height, layer.kernel.width},
            memory::data_type::f32,
            memory::format_tag::Goihw16g};
  }
  static DepthwiseShape shape(const Layer& layer, const MapGeometry& x, const MapGeometry& y) {
    return {x, y, layer.kernel, layer.stride, layer.padding, layer.dilation};
  }
  static constexpr auto forward = depthwise_forward;
  static constexpr auto backward_data = depthwise_backward_data;
  static constexpr auto backward_weights = depthwise_backward_weights;
};

/// An fp32 convolution on maps of any size, computed by our own kernels on the calling thread.
template <typename Kernels>
class KernelConvolution final : public WeightedOperation {
 public:
  KernelConvolution(const Builder& builder, const Layer& layer, bool relu, Value& input,
                    Value& result)
      : WeightedOperation(builder, layer, relu, input, result),
        format_(Kernels::format(layer, input.shape[0])) {
    parameters_.prefer(weight_index_, format_);
    weight_ = parameters_.weight(weight_index_, format_);
    y_.data = builder.make(builder.map_format(layer.shape));
    shape_ = Kernels::shape(layer, map_geometry(x_), map_geometry(y_));
  }

  void forward(dnnl::stream& stream) override {
    stream.wait();
    Kernels::forward(shape_, x_.numbers().template as<float>(),
                     {numbers(weight_).as<float>(), bias()}, relu_,
                     y_.numbers().template as<float>());
  }

  void prepare_backward(const Builder& builder) override {
    dy_ = GradientSum(builder, y_, relu_);
    if (trains(parameters_)) {
      builder.read(x_.data);
      dweight_ = parameters_.gradient(weight_index_, format_);
    }
    if (x_.needs_gradient) dx_ = make_dx(builder);
  }

  void backward(dnnl::stream& stream) override {
    stream.wait();
    dy_.run();
    const float* const dy = numbers(dy_.sum()).template as<float>();
    if (trains(parameters_)) {
      Kernels::backward_weights(shape_, x_.numbers().template as<float>(), dy,
                                numbers(dweight_).as<float>(), bias_gradient());
      parameters_.finish_gradient(stream, weight_index_);
    }
    if (!x_.needs_gradient) return;
    Kernels::backward_data(shape_, dy, numbers(weight_).as<float>(), numbers(dx_).as<float>());
  }

 private:
  decltype(Kernels::shape(Layer(), MapGeometry(), MapGeometry())) shape_;
  memory::desc format_;
  memory weight_, dweight_, dx_;
};

}  // namespace

Value& add_winograd(Assembly& assembly, const LayerNode& node) {
  return assembly.add<KernelConvolution<Winograd>>(node.layer, node.relu, assembly.input(node));
}

bool is_depthwise(const Layer& layer, const TensorShape& input) {
  return layer.groups > 1 && layer.groups == input[0] && layer.groups == layer.units;
}

Value& add_depthwise(Assembly& assembly, const LayerNode& node) {
  return assembly.add<KernelConvolution<Depthwise>>(node.layer, node.relu, assembly.input(node));
}

}  // namespace dlflow::runtime
