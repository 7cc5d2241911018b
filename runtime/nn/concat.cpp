#include "runtime/nn/assembly.h"
#include "runtime/nn/map_kernels.h"

namespace dlflow::runtime {
namespace {

/// Concatenates values along the channels of maps or the features of rows.
class Concat : public Operation {
 public:
  Concat(const Builder& builder, const Layer& layer, std::vector<Value*> inputs, Value& result)
      : inputs_(std::move(inputs)), y_(result) {
    const bool maps = layer.shape.size() == 3;
    y_.shape = layer.shape;
    y_.data =
        builder.make(maps ? builder.map_format(layer.shape) : builder.plain_format(layer.shape));
    for (const Value* x : inputs_) {
      y_.needs_gradient = y_.needs_gradient || x->needs_gradient;
      builder.read(x->data);
    }
  }

  void forward(dnnl::stream& stream) override {
    stream.wait();
    const MapGeometry to = map_geometry(y_);
    int64_t first = 0;
    for (const Value* x : inputs_) {
      const int64_t channels = channels_of(*x);
      copy_channels({map_geometry(*x), x->numbers()}, {to, y_.numbers(), first}, channels);
      first += channels;
    }
    clear_padding(to, first, y_.numbers());
  }

  void prepare_backward(const Builder& builder) override {
    dy_ = GradientSum(builder, y_, false);
    for (Value* x : inputs_) {
      gradients_.push_back(x->needs_gradient ? builder.make(x->desc()) : dnnl::memory());
      if (x->needs_gradient) x->gradients.push_back(gradients_.back());
    }
  }

  void backward(dnnl::stream&) override {
    dy_.run();
    const MapGeometry from = map_geometry(y_);
    int64_t first = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const int64_t channels = channels_of(*inputs_[i]);
      if (gradients_[i]) {
        const MapGeometry to = map_geometry(*inputs_[i]);
        copy_channels({from, numbers(dy_.sum()), first}, {to, numbers(gradients_[i])}, channels);
        clear_padding(to, channels, numbers(gradients_[i]));
      }
      first += channels;
    }
  }

 private:
  static int64_t channels_of(const Value& value) { return dimensions(value.desc())[1]; }

  std::vector<Value*> inputs_;
  Value& y_;
  GradientSum dy_;
  std::vector<dnnl::memory> gradients_;  // of each input; empty where none is needed
};

}  // namespace

Value& add_concat(Assembly& assembly, const LayerNode& node) {
  return assembly.add<Concat>(node.layer, assembly.inputs(node));
}

}  // namespace dlflow::runtime
