#include "runtime/nn/assembly.h"
#include "runtime/nn/map_kernels.h"

namespace dlflow::runtime {
namespace {

using dnnl::memory;

class GroupNormalisation : public Operation {
 public:
  GroupNormalisation(const Builder& builder, const Layer& layer, Value& input, Value& result)
      : layer_(layer), parameters_(builder.parameters), x_(input), y_(result) {
    const memory::desc format({layer.shape[0]}, memory::data_type::f32, memory::format_tag::a);
    weight_ = parameters_.index(layer.name + ".weight");
    bias_ = parameters_.index(layer.name + ".bias");
    parameters_.prefer(weight_, format);
    parameters_.prefer(bias_, format);
    y_.shape = layer.shape;
    y_.data = builder.make(x_.desc());
    y_.needs_gradient = x_.needs_gradient || parameters_.trains(weight_);
    builder.read(x_.data);
    means_.resize(size_t(builder.batch * layer.groups));
    scales_.resize(means_.size());
  }

  void forward(dnnl::stream& stream) override {
    stream.wait();
    group_norm_forward(norm(), x_.numbers(), y_.numbers(), means_.data(), scales_.data());
  }

  void prepare_backward(const Builder& builder) override {
    dy_ = GradientSum(builder, y_, false);
    builder.read(x_.data);
    dx_ = builder.make(x_.desc());
    if (x_.needs_gradient) x_.gradients.push_back(dx_);
  }

  void backward(dnnl::stream&) override {
    dy_.run();
    group_norm_backward(norm(), x_.numbers(), numbers(dy_.sum()), means_.data(), scales_.data(),
                        numbers(dx_), parameters_.gradient_slot(weight_),
                        parameters_.gradient_slot(bias_));
  }

  std::vector<size_t> parameters() const override { return {weight_, bias_}; }

 private:
  GroupNorm norm() const {
    return {map_geometry(x_), layer_.shape[0], layer_.groups, parameters_.weight_slot(weight_),
            parameters_.weight_slot(bias_)};
  }

  const Layer& layer_;
  ParameterMemory& parameters_;
  Value& x_;
  Value& y_;
  size_t weight_ = 0, bias_ = 0;
  std::vector<float> means_, scales_;
  GradientSum dy_;
  memory dx_;
};

}  // namespace

Value& add_group_norm(Assembly& assembly, const Place& place) {
  return assembly.add<GroupNormalisation>(place.layer, assembly.input(place));
}

}  // namespace dlflow::runtime
