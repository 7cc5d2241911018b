#include "runtime/nn/depthwise.h"

#include "runtime/nn/depthwise_kernel.h"
#include "runtime/nn/kernel_convolution.h"

namespace dlflow::runtime {
namespace {

using dnnl::memory;

memory::desc depthwise_format(const Layer& layer) {
  return {{layer.groups, 1, 1, layer.kernel.height, layer.kernel.width},
          memory::data_type::f32,
          memory::format_tag::Goihw16g};
}

class Depthwise final : public KernelConvolution {
 public:
  Depthwise(const Builder& builder, const Layer& layer, bool relu, Value& input, Value& result)
      : KernelConvolution(builder, layer, relu, depthwise_format(layer), input, result),
        shape_{x_map(), y_map(), layer.kernel, layer.stride, layer.padding, layer.dilation} {}

 private:
  void run_forward(const float* x, const float* weight, const float* bias, bool relu,
                   float* y) const override {
    depthwise_forward(shape_, x, weight, bias, relu, y);
  }
  void run_backward_data(const float* dy, const float* weight, float* dx) const override {
    depthwise_backward_data(shape_, dy, weight, dx);
  }
  void run_backward_weights(const float* x, const float* dy, float* dweight,
                            float* dbias) const override {
    depthwise_backward_weights(shape_, x, dy, dweight, dbias);
  }

  DepthwiseShape shape_;
};

}  // namespace

bool is_depthwise(const Layer& layer, const TensorShape& input) {
  return layer.groups > 1 && layer.groups == input[0] && layer.groups == layer.units;
}

Value& add_depthwise(Assembly& assembly, const Place& place) {
  return assembly.add<Depthwise>(place.layer, place.relu, assembly.input(place));
}

}  // namespace dlflow::runtime
