#include "runtime/nn/depthwise.h"

#include "runtime/nn/depthwise_kernel.h"

namespace dlflow::runtime {
namespace {

using dnnl::memory;

class Depthwise : public Operation {
 public:
  Depthwise(const Builder& builder, const Layer& layer, bool relu, Value& input, Value& result)
      : relu_(relu), has_bias_(layer.bias), parameters_(builder.parameters), x_(input), y_(result) {
    const auto f32 = memory::data_type::f32;
    const Extent& kernel = layer.kernel;
    format_ = {
        {layer.groups, 1, 1, kernel.height, kernel.width}, f32, memory::format_tag::Goihw16g};
    weight_index_ = parameters_.index(layer.name + ".weight");
    parameters_.prefer(weight_index_, format_);
    weight_ = parameters_.weight(weight_index_, format_);
    if (has_bias_) {
      bias_index_ = parameters_.index(layer.name + ".bias");
      parameters_.prefer(bias_index_, {{layer.units}, f32, memory::format_tag::a});
    }
    y_.shape = layer.shape;
    y_.data = builder.make(builder.map_format(layer.shape));
    y_.needs_gradient = x_.needs_gradient || parameters_.trains(weight_index_);
    builder.read(x_.data);
    shape_ = {map_geometry(x_), map_geometry(y_), kernel,
              layer.stride,     layer.padding,    layer.dilation};
  }

  void forward(dnnl::stream& stream) override {
    stream.wait();
    depthwise_forward(shape_, x_.numbers().as<float>(), numbers(weight_).as<float>(),
                      has_bias_ ? parameters_.weight_slot(bias_index_) : nullptr, relu_,
                      y_.numbers().as<float>());
  }

  void prepare_backward(const Builder& builder) override {
    dy_ = GradientSum(builder, y_, relu_);
    if (trains(parameters_)) {
      builder.read(x_.data);
      dweight_ = parameters_.gradient(weight_index_, format_);
    }
    if (!x_.needs_gradient) return;
    dx_ = builder.make(x_.desc());
    x_.gradients.push_back(dx_);
  }

  void backward(dnnl::stream& stream) override {
    stream.wait();
    dy_.run();
    const float* const dy = numbers(dy_.sum()).as<float>();
    if (trains(parameters_)) {
      depthwise_backward_weights(shape_, x_.numbers().as<float>(), dy,
                                 numbers(dweight_).as<float>(),
                                 has_bias_ ? parameters_.gradient_slot(bias_index_) : nullptr);
      parameters_.finish_gradient(stream, weight_index_);
    }
    if (x_.needs_gradient)
      depthwise_backward_data(shape_, dy, numbers(weight_).as<float>(), numbers(dx_).as<float>());
  }

  std::vector<size_t> parameters() const override {
    if (!has_bias_) return {weight_index_};
    return {weight_index_, bias_index_};
  }

 private:
  bool relu_, has_bias_;
  ParameterMemory& parameters_;
  Value& x_;
  Value& y_;
  size_t weight_index_ = 0, bias_index_ = 0;
  memory::desc format_;
  memory weight_, dweight_, dx_;
  DepthwiseShape shape_;
  GradientSum dy_;
};

}  // namespace

bool is_depthwise(const Layer& layer, const TensorShape& input) {
  return layer.groups > 1 && layer.groups == input[0] && layer.groups == layer.units;
}

Value& add_depthwise(Assembly& assembly, const Place& place) {
  Value& x = assembly.input(place);
  return assembly.add([&](Value& y) {
    return std::make_unique<Depthwise>(assembly.next(), place.layer, place.relu, x, y);
  });
}

}  // namespace dlflow::runtime
