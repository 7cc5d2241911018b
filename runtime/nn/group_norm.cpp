#include "runtime/nn/assembly.h"
#include "runtime/nn/map_kernels.h"

namespace dlflow::runtime {
namespace {

class GroupNormalisation : public WeightedOperation {
 public:
  GroupNormalisation(const Builder& builder, const Layer& layer, Value& input, Value& result)
      : WeightedOperation(builder, layer, layer.name + ".weight", false, layer.shape[0], input,
                          result),
        means_(size_t(builder.batch * layer.groups)),
        scales_(means_.size()) {
    parameters_.plain(layer.name + ".weight", {layer.shape[0]});
    y_.data = builder.make(x_.desc());
  }

  void forward(dnnl::stream& stream) override {
    stream.wait();
    group_norm_forward(norm(), x_.numbers(), y_.numbers(), means_.data(), scales_.data());
  }

  void prepare_backward(const Builder& builder) override {
    dy_ = GradientSum(builder, y_, false);
    builder.read(x_.data);
    dx_ = make_dx(builder);
  }

  void backward(dnnl::stream&) override {
    dy_.run();
    group_norm_backward(norm(), x_.numbers(), numbers(dy_.sum()), means_.data(), scales_.data(),
                        numbers(dx_), parameters_.gradient_slot(weight_index_), bias_gradient());
  }

 private:
  GroupNorm norm() const {
    return {map_geometry(x_), layer_.shape[0], layer_.groups,
            parameters_.weight_slot(weight_index_), bias()};
  }

  std::vector<float> means_, scales_;
  dnnl::memory dx_;
};

}  // namespace

Value& add_group_norm(Assembly& assembly, const Place& place) {
  return assembly.add<GroupNormalisation>(place.layer, assembly.input(place));
}

}  // namespace dlflow::runtime
