#include "runtime/nn/winograd.h"

#include <omp.h>

#include "runtime/nn/winograd_kernel.h"

namespace dlflow::runtime {
namespace {

using dnnl::memory;

/// The transforms cost more than they save with few channels, in tiles of which less than half is
/// there, and where few tiles share the transformed weights.
bool pays(const TensorShape& in, const TensorShape& out, int64_t batch) {
  const auto isa = dnnl::get_effective_cpu_isa();
  if (isa < dnnl::cpu_isa::avx2) return false;
  const int64_t least = isa >= dnnl::cpu_isa::avx512_core ? 32 : 16;
  const auto tiles = [](int64_t pixels) { return (pixels + 3) / 4; };
  const int64_t tiles_in_map = tiles(out[1]) * tiles(out[2]);
  return in[0] >= least && out[0] >= least && 2 * out[1] * out[2] > 16 * tiles_in_map &&
         batch * tiles_in_map >= std::max<int64_t>(64, in[0] / 2);
}

class WinogradConvolution : public Operation {
 public:
  WinogradConvolution(const Builder& builder, const Layer& layer, bool relu, Value& input,
                      Value& result)
      : relu_(relu), has_bias_(layer.bias), parameters_(builder.parameters), x_(input), y_(result) {
    const auto f32 = memory::data_type::f32;
    format_ = {{layer.units, input.shape[0], 3, 3}, f32, memory::format_tag::OIhw16i16o};
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
    shape_ = {map_geometry(x_), map_geometry(y_), layer.padding.height, layer.padding.width};
  }

  void forward(dnnl::stream& stream) override {
    stream.wait();
    winograd_forward(shape_, x_.numbers().as<float>(), numbers(weight_).as<float>(),
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
      winograd_backward_weights(shape_, x_.numbers().as<float>(), dy, numbers(dweight_).as<float>(),
                                has_bias_ ? parameters_.gradient_slot(bias_index_) : nullptr);
      parameters_.finish_gradient(stream, weight_index_);
    }
    if (x_.needs_gradient)
      winograd_backward_data(shape_, dy, numbers(weight_).as<float>(), numbers(dx_).as<float>());
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
  WinogradShape shape_;
  GradientSum dy_;
};

}  // namespace

bool suits_winograd(const Builder& builder, const Layer& layer, const TensorShape& input) {
  // oneDNN takes all threads of a rank.
  const bool can = builder.compute == Compute::Float32 && omp_get_max_threads() == 1 &&
                   layer.kernel == Extent(3) && layer.stride == Extent(1) &&
                   layer.dilation == Extent(1) && layer.groups == 1 && layer.padding.height <= 2 &&
                   layer.padding.width <= 2 && input[0] % 16 == 0 && layer.units % 16 == 0;
  return can && pays(input, layer.shape, builder.batch);
}

Value& add_winograd(Assembly& assembly, const Place& place) {
  Value& x = assembly.input(place);
  return assembly.add([&](Value& y) {
    return std::make_unique<WinogradConvolution>(assembly.next(), place.layer, place.relu, x, y);
  });
}

}  // namespace dlflow::runtime
