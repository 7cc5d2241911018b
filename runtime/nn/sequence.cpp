#include <algorithm>
#include <cstring>

#include "runtime/nn/assembly.h"
#include "runtime/nn/row_kernels.h"

namespace dlflow::runtime {
namespace {

using dnnl::memory;

RowShape row_shape(const Value& value) {
  const memory::dims dims = dimensions(value.desc());
  return {dims[0], dims[1]};
}

/// Returns a row of its weight for each token.
class Embedding : public WeightedOperation {
 public:
  /// With `shared`, later linear layers have already left their share of the weight's gradient.
  Embedding(const Builder& builder, const Layer& layer, bool shared, Value& tokens, Value& result)
      : WeightedOperation(builder, layer, layer.name + ".weight", false, 0, tokens, result),
        shared_(shared) {
    parameters_.plain(layer.name + ".weight", {layer.vocabulary, layer.units});
    y_.data = builder.make(builder.plain_format(layer.shape));
  }

  void forward(dnnl::stream&) override {
    embed(tokens(), row_shape(y_), parameters_.weight_slot(weight_index_), layer_.vocabulary,
          y_.numbers());
  }

  void prepare_backward(const Builder& builder) override {
    dy_ = GradientSum(builder, y_, false);
    builder.read(x_.data);
  }

  void backward(dnnl::stream& stream) override {
    dy_.run();
    stream.wait();
    float* gradient = parameters_.gradient_slot(weight_index_);
    const auto bytes = size_t(layer_.vocabulary * layer_.units) * sizeof(float);
    if (!shared_) std::memset(gradient, 0, bytes);
    embed_backward(tokens(), row_shape(y_), numbers(dy_.sum()), gradient);
  }

 private:
  const float* tokens() const { return static_cast<const float*>(x_.data.get_data_handle()); }

  bool shared_;
};

/// Adds a learned row to each position.
class Positions : public WeightedOperation {
 public:
  Positions(const Builder& builder, const Layer& layer, Value& input, Value& result)
      : WeightedOperation(builder, layer, layer.name + ".weight", false, 0, input, result),
        length_(layer.shape[0]),
        rows_(std::max(layer.vocabulary, length_)) {
    parameters_.plain(layer.name + ".weight", {rows_, layer.shape[1]});
    y_.data = builder.make(x_.desc());
  }

  void forward(dnnl::stream&) override {
    add_table_rows(row_shape(y_), length_, x_.numbers(), parameters_.weight_slot(weight_index_),
                   y_.numbers());
  }

  void prepare_backward(const Builder& builder) override {
    dy_ = GradientSum(builder, y_, false);
    if (x_.needs_gradient) x_.gradients.push_back(dy_.sum());
  }

  void backward(dnnl::stream&) override {
    dy_.run();
    float* const gradient = parameters_.gradient_slot(weight_index_);
    const RowShape shape = row_shape(y_);
    sum_table_rows(shape, length_, numbers(dy_.sum()), gradient);
    std::fill(gradient + length_ * shape.features, gradient + rows_ * shape.features, 0.0f);
  }

 private:
  int64_t length_;
  int64_t rows_;  // of the weight; positions from `length_` on have no tokens
};

/// The mean over the positions that count.
class MeanPool : public UnaryOperation {
 public:
  MeanPool(const Builder& builder, const Layer& layer, Value& input, Value& result)
      : UnaryOperation(builder, input, result, layer.shape, builder.plain_format(layer.shape)),
        shape_{builder.batch, input.shape[0], input.shape[1]},
        lengths_(*builder.lengths) {}

  void forward(dnnl::stream& stream) override {
    stream.wait();
    mean_pool_forward(shape_, lengths_, x_.numbers(), y_.numbers());
  }

 private:
  void pass_back(dnnl::stream&) override {
    mean_pool_backward(shape_, lengths_, numbers(dy()), numbers(dx()));
  }

  SequenceShape shape_;
  const std::span<const float>& lengths_;
};

class Softmax : public UnaryOperation {
 public:
  Softmax(const Builder& builder, Value& input, Value& result)
      : UnaryOperation(builder, input, result, input.shape, input.desc()) {}

  void forward(dnnl::stream& stream) override {
    stream.wait();
    softmax_forward(row_shape(x_), x_.numbers(), y_.numbers());
  }

  void prepare_backward(const Builder& builder) override {
    UnaryOperation::prepare_backward(builder);
    builder.read(y_.data);
  }

 private:
  void pass_back(dnnl::stream&) override {
    softmax_backward(row_shape(x_), y_.numbers(), numbers(dy()), numbers(dx()));
  }
};

bool is_tied(const Model& model, const Layer& embedding) {
  return std::ranges::any_of(model.layers, [&](const Layer& layer) {
    return layer.tied != kImages && model.layers[size_t(layer.tied)].name == embedding.name;
  });
}

}  // namespace

/// Tokens are read in fp32, since bf16 cannot represent all of them.
Value& add_embedding(Assembly& assembly, const LayerNode& node) {
  Value& x = assembly.images();
  const bool tied = is_tied(assembly.model(), node.layer);
  return assembly.add<Embedding>(node.layer, tied, x);
}

Value& add_positions(Assembly& assembly, const LayerNode& node) {
  return assembly.add<Positions>(node.layer, assembly.input(node));
}

Value& add_mean_pool(Assembly& assembly, const LayerNode& node) {
  return assembly.add<MeanPool>(node.layer, assembly.input(node));
}

Value& add_softmax(Assembly& assembly, const LayerNode& node) {
  return assembly.add<Softmax>(assembly.input(node));
}

}  // namespace dlflow::runtime
