#include "runtime/nn/kernel_convolution.h"

namespace dlflow::runtime {

using dnnl::memory;

KernelConvolution::KernelConvolution(const Builder& builder, const Layer& layer, bool relu,
                                     const memory::desc& weight, Value& input, Value& result)
    : WeightedOperation(builder, layer, relu, input, result), format_(weight) {
  parameters_.prefer(weight_index_, format_);
  weight_ = parameters_.weight(weight_index_, format_);
  y_.data = builder.make(builder.map_format(layer.shape));
}

void KernelConvolution::forward(dnnl::stream& stream) {
  stream.wait();
  run_forward(x_.numbers().as<float>(), numbers(weight_).as<float>(), bias(), relu_,
              y_.numbers().as<float>());
}

void KernelConvolution::prepare_backward(const Builder& builder) {
  dy_ = GradientSum(builder, y_, relu_);
  if (trains(parameters_)) {
    builder.read(x_.data);
    dweight_ = parameters_.gradient(weight_index_, format_);
  }
  if (!x_.needs_gradient) return;
  dx_ = make_dx(builder);
}

void KernelConvolution::backward(dnnl::stream& stream) {
  stream.wait();
  dy_.run();
  const float* const dy = numbers(dy_.sum()).as<float>();
  if (trains(parameters_)) {
    run_backward_weights(x_.numbers().as<float>(), dy, numbers(dweight_).as<float>(),
                         bias_gradient());
    parameters_.finish_gradient(stream, weight_index_);
  }
  if (x_.needs_gradient)
    run_backward_data(dy, numbers(weight_).as<float>(), numbers(dx_).as<float>());
}

}  // namespace dlflow::runtime
