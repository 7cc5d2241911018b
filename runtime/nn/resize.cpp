#include "runtime/nn/assembly.h"
#include "runtime/nn/map_kernels.h"

namespace dlflow::runtime {
namespace {

/// A map of another height and width: AdaptiveAvgPool or Upsample.
class Resize : public Operation {
 public:
  Resize(const Builder& builder, const Layer& layer, Value& input, Value& result)
      : layer_(layer), x_(input), y_(result) {
    y_.shape = layer.shape;
    y_.data = builder.make(builder.map_format(layer.shape));
    y_.needs_gradient = x_.needs_gradient;
    builder.read(x_.data);
  }

  void forward(dnnl::stream& stream) override {
    stream.wait();
    const MapGeometry from = map_geometry(x_), to = map_geometry(y_);
    if (layer_.kind == LayerKind::Upsample) {
      upsample_forward(from, layer_.scale, to, x_.numbers(), y_.numbers());
    } else {
      adaptive_pool_forward(from, to, x_.numbers(), y_.numbers());
    }
  }

  void prepare_backward(const Builder& builder) override {
    dy_ = GradientSum(builder, y_, false);
    dx_ = builder.make(x_.desc());
    x_.gradients.push_back(dx_);
  }

  void backward(dnnl::stream&) override {
    dy_.run();
    const MapGeometry from = map_geometry(x_), to = map_geometry(y_);
    if (layer_.kind == LayerKind::Upsample) {
      upsample_backward(from, layer_.scale, to, numbers(dy_.sum()), numbers(dx_));
    } else {
      adaptive_pool_backward(from, to, numbers(dy_.sum()), numbers(dx_));
    }
  }

 private:
  const Layer& layer_;
  Value& x_;
  Value& y_;
  GradientSum dy_;
  dnnl::memory dx_;
};

Value& add_resize(Assembly& assembly, const Place& place) {
  Value& x = assembly.input(place);
  return assembly.add(
      [&](Value& y) { return std::make_unique<Resize>(assembly.next(), place.layer, x, y); });
}

}  // namespace

Value& add_adaptive_avg_pool(Assembly& assembly, const Place& place) {
  return add_resize(assembly, place);
}

Value& add_upsample(Assembly& assembly, const Place& place) { return add_resize(assembly, place); }

}  // namespace dlflow::runtime
