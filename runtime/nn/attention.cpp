#include "runtime/nn/assembly.h"
#include "runtime/nn/attention_kernel.h"

namespace dlflow::runtime {
namespace {

class Attention : public Operation {
 public:
  Attention(const Builder& builder, const Layer& layer, Value& input, Value& result)
      : kernel_(shape_of(builder.batch, layer)), lengths_(*builder.lengths), x_(input), y_(result) {
    y_.shape = layer.shape;
    y_.data = builder.make(builder.plain_format(layer.shape));
    y_.needs_gradient = x_.needs_gradient;
    builder.read(x_.data);
  }

  void forward(dnnl::stream& stream) override {
    stream.wait();
    kernel_.forward(x_.numbers(), y_.numbers(), lengths_);
  }

  void prepare_backward(const Builder& builder) override {
    dy_ = GradientSum(builder, y_, false);
    builder.read(x_.data);
    builder.read(y_.data);
    dx_ = builder.make(x_.desc());
    x_.gradients.push_back(dx_);
  }

  void backward(dnnl::stream&) override {
    dy_.run();
    kernel_.backward(x_.numbers(), y_.numbers(), numbers(dy_.sum()), numbers(dx_), lengths_);
  }

 private:
  static AttentionShape shape_of(int64_t batch, const Layer& layer) {
    const int64_t size = layer.shape[1] / layer.heads;
    return {batch, layer.shape[0], layer.heads, layer.kv_heads, size, layer.causal, layer.rotary};
  }

  AttentionKernel kernel_;
  const std::span<const float>& lengths_;
  Value& x_;
  Value& y_;
  GradientSum dy_;
  dnnl::memory dx_;
};

}  // namespace

Value& add_attention(Assembly& assembly, const Place& place) {
  Value& x = assembly.input(place);
  return assembly.add(
      [&](Value& y) { return std::make_unique<Attention>(assembly.next(), place.layer, x, y); });
}

}  // namespace dlflow::runtime
