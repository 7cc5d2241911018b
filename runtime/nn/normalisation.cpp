#include "runtime/nn/assembly.h"
#include "runtime/nn/map_kernels.h"
#include "runtime/nn/row_kernels.h"

namespace dlflow::runtime {
namespace {

/// Layer normalisation or root-mean-square normalisation.
struct OfRows {
  static RowNorm norm(const Layer& layer, const Value& x, const float* weight, const float* bias) {
    const dnnl::memory::dims dims = dimensions(x.desc());
    return {{dims[0], dims[1]}, layer.kind == LayerKind::LayerNorm, weight, bias};
  }
  static constexpr auto forward = row_norm_forward;
  static constexpr auto backward = row_norm_backward;
};

struct OfGroups {
  static GroupNorm norm(const Layer& layer, const Value& x, const float* weight,
                        const float* bias) {
    return {map_geometry(x), layer.shape[0], layer.groups, weight, bias};
  }
  static constexpr auto forward = group_norm_forward;
  static constexpr auto backward = group_norm_backward;
};

template <typename Kernels>
class Normalisation final : public WeightedOperation {
 public:
  /// \param num_weights, num_biases  numbers in the layer's weight and bias; 0: no bias
  /// \param num_means                per batch
  Normalisation(const Builder& builder, const Layer& layer, int64_t num_weights, int64_t num_biases,
                int64_t num_means, Value& input, Value& result)
      : WeightedOperation(builder, layer, layer.name + ".weight", false, num_biases, input, result),
        means_(size_t(num_means)),
        scales_(means_.size()) {
    parameters_.plain(layer.name + ".weight", {num_weights});
    y_.data = builder.make(x_.desc());
  }

  void forward(dnnl::stream& stream) override {
    stream.wait();
    Kernels::forward(norm(), x_.numbers(), y_.numbers(), means_.data(), scales_.data());
  }

  void prepare_backward(const Builder& builder) override {
    dy_ = GradientSum(builder, y_, false);
    builder.read(x_.data);
    dx_ = make_dx(builder);
  }

  void backward(dnnl::stream&) override {
    dy_.run();
    Kernels::backward(norm(),
                      {.x = x_.numbers(),
                       .dy = numbers(dy_.sum()),
                       .means = means_.data(),
                       .scales = scales_.data(),
                       .dx = numbers(dx_)},
                      {parameters_.gradient_slot(weight_index_), bias_gradient()});
  }

 private:
  auto norm() const {
    return Kernels::norm(layer_, x_, parameters_.weight_slot(weight_index_), bias());
  }

  std::vector<float> means_, scales_;
  dnnl::memory dx_;
};

Value& add_row_norm(Assembly& assembly, const LayerNode& node) {
  const Layer& layer = node.layer;
  Value& x = assembly.input(node);
  const int64_t features = layer.shape.back();
  const bool has_biases = layer.kind == LayerKind::LayerNorm && layer.bias;
  return assembly.add<Normalisation<OfRows>>(layer, features, has_biases ? features : 0,
                                             dimensions(x.desc())[0], x);
}

}  // namespace

Value& add_group_norm(Assembly& assembly, const LayerNode& node) {
  const Layer& layer = node.layer;
  const int64_t channels = layer.shape[0], means = assembly.next().batch * layer.groups;
  return assembly.add<Normalisation<OfGroups>>(layer, channels, channels, means,
                                               assembly.input(node));
}

Value& add_layer_norm(Assembly& assembly, const LayerNode& node) {
  return add_row_norm(assembly, node);
}

Value& add_rms_norm(Assembly& assembly, const LayerNode& node) {
  return add_row_norm(assembly, node);
}

}  // namespace dlflow::runtime
