#include "runtime/nn/assembly.h"
#include "runtime/nn/attention_kernel.h"

namespace dlflow::runtime {
namespace {

class Attention : public UnaryOperation {
 public:
  Attention(const Builder& builder, const Layer& layer, Value& input, Value& result)
      : UnaryOperation(builder, input, result, layer.shape, builder.plain_format(layer.shape)),
        kernel_(shape_of(builder.batch, layer)),
        lengths_(*builder.lengths) {}

  void forward(dnnl::stream& stream) override {
    stream.wait();
    kernel_.forward(x_.numbers(), y_.numbers(), lengths_);
  }

  void prepare_backward(const Builder& builder) override {
    UnaryOperation::prepare_backward(builder);
    builder.read(x_.data);
    builder.read(y_.data);
  }

 private:
  void pass_back(dnnl::stream&) override {
    kernel_.backward(x_.numbers(), y_.numbers(), numbers(dy()), numbers(dx()), lengths_);
  }

  static AttentionShape shape_of(int64_t batch, const Layer& layer) {
    const int64_t size = layer.shape[1] / layer.heads;
    return {batch, layer.shape[0], layer.heads, layer.kv_heads, size, layer.causal, layer.rotary};
  }

  AttentionKernel kernel_;
  const std::span<const float>& lengths_;
};

}  // namespace

Value& add_attention(Assembly& assembly, const LayerNode& node) {
  return assembly.add<Attention>(node.layer, assembly.input(node));
}

}  // namespace dlflow::runtime
