#include "runtime/nn/kernel_convolution.h"

namespace dlflow::runtime {

using dnnl::memory;

KernelConvolution::KernelConvolution(const Builder& builder, const Layer& layer, bool relu,
                                     const memory::desc& weight, Value& input, Value& result)
    : relu_(relu),
      has_bias_(layer.bias),
      parameters_(builder.parameters),
      x_(input),
      y_(result),
      format_(weight) {
  weight_index_ = parameters_.index(layer.name + ".weight");
  parameters_.prefer(weight_index_, format_);
  weight_ = parameters_.weight(weight_index_, format_);
  if (has_bias_) {
    bias_index_ = parameters_.index(layer.name + ".bias");
    parameters_.prefer(bias_index_, {{layer.units}, memory::data_type::f32, memory::format_tag::a});
  }
  y_.shape = layer.shape;
  y_.data = builder.make(builder.map_format(layer.shape));
  y_.needs_gradient = x_.needs_gradient || parameters_.trains(weight_index_);
  builder.read(x_.data);
}

void KernelConvolution::forward(dnnl::stream& stream) {
  stream.wait();
  run_forward(x_.numbers().as<float>(), numbers(weight_).as<float>(),
              has_bias_ ? parameters_.weight_slot(bias_index_) : nullptr, relu_,
              y_.numbers().as<float>());
}

void KernelConvolution::prepare_backward(const Builder& builder) {
  dy_ = GradientSum(builder, y_, relu_);
  if (trains(parameters_)) {
    builder.read(x_.data);
    dweight_ = parameters_.gradient(weight_index_, format_);
  }
  if (!x_.needs_gradient) return;
  dx_ = builder.make(x_.desc());
  x_.gradients.push_back(dx_);
}

void KernelConvolution::backward(dnnl::stream& stream) {
  stream.wait();
  dy_.run();
  const float* const dy = numbers(dy_.sum()).as<float>();
  if (trains(parameters_)) {
    run_backward_weights(x_.numbers().as<float>(), dy, numbers(dweight_).as<float>(),
                         has_bias_ ? parameters_.gradient_slot(bias_index_) : nullptr);
    parameters_.finish_gradient(stream, weight_index_);
  }
  if (x_.needs_gradient)
    run_backward_data(dy, numbers(weight_).as<float>(), numbers(dx_).as<float>());
}

std::vector<size_t> KernelConvolution::parameters() const {
  if (!has_bias_) return {weight_index_};
  return {weight_index_, bias_index_};
}

}  // namespace dlflow::runtime
