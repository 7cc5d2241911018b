#include "runtime/nn/assembly.h"
#include "runtime/nn/map_kernels.h"

namespace dlflow::runtime {
namespace {

/// Changes the height and width of a map: AdaptiveAvgPool or Upsample.
class Resize : public UnaryOperation {
 public:
  Resize(const Builder& builder, const Layer& layer, Value& input, Value& result)
      : UnaryOperation(builder, input, result, layer.shape, builder.map_format(layer.shape)),
        layer_(layer) {}

  void forward(dnnl::stream& stream) override {
    stream.wait();
    const MapGeometry from = map_geometry(x_), to = map_geometry(y_);
    if (layer_.kind == LayerKind::Upsample) {
      upsample_forward(from, layer_.scale, to, x_.numbers(), y_.numbers());
    } else {
      adaptive_pool_forward(from, to, x_.numbers(), y_.numbers());
    }
  }

 private:
  void pass_back(dnnl::stream&) override {
    const MapGeometry from = map_geometry(x_), to = map_geometry(y_);
    if (layer_.kind == LayerKind::Upsample) {
      upsample_backward(from, layer_.scale, to, numbers(dy()), numbers(dx()));
    } else {
      adaptive_pool_backward(from, to, numbers(dy()), numbers(dx()));
    }
  }

  const Layer& layer_;
};

}  // namespace

Value& add_adaptive_avg_pool(Assembly& assembly, const LayerNode& node) {
  return assembly.add<Resize>(node.layer, assembly.input(node));
}

Value& add_upsample(Assembly& assembly, const LayerNode& node) {
  return assembly.add<Resize>(node.layer, assembly.input(node));
}

}  // namespace dlflow::runtime
