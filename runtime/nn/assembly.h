#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/nn/fusion.h"
#include "runtime/nn/operation.h"

/// Turns a network's layers into operations. Each kind of layer has a function in the file of its
/// kernels, which chooses the formats. This file has the code that all kinds share.
namespace dlflow::runtime {

/// A fused layer whose operations are being made.
struct LayerNode {
  size_t index;  ///< among the fused layers
  const Layer& layer;
  bool relu;    ///< a ReLU is applied to its result
  bool capped;  ///< the ReLU is a ReLU6
};

/// An operation in the order of execution.
struct PlacedOperation {
  std::unique_ptr<Operation> operation;
  const Value* result;
  std::string forward_name, backward_name, again_name;  ///< in timelines
  std::vector<size_t> parameters;                       ///< operation->parameters()
  std::vector<size_t> shared_parameters;                ///< operation->shared_parameters()
};

/// How a network is to be executed. The network owns the parts referred to, not the assembly.
struct Execution {
  Arena& arena;
  ParameterMemory& parameters;
  int64_t batch;
  bool training;
  bool joint;  ///< batch statistics are taken over several networks
  Compute compute;
  const Draws& draws;
  const std::span<const float>& lengths;  ///< see Builder::lengths
};

/// The operations of a network and the values between them.
class Assembly {
 public:
  /// Makes all operations of the forward pass. `model` and `layers` must outlive this. Throws
  /// Error{InvalidInput} naming the layer if oneDNN has no optimised kernel for it.
  Assembly(const Model& model, const std::vector<FusedLayer>& layers, const Execution& execution);

  /// Must be called once, after the last reader of every value is known.
  void prepare_backward();

  const std::vector<PlacedOperation>& operations() const { return operations_; }

  /// fp32, one row per sample.
  Value& scores() { return *results_.back(); }

  /// Bytes of the images that forward() is given.
  size_t images_size() const { return images_->desc().get_size(); }

  /// The next forward pass reads `images`.
  void bind(const float* images);

  // Used by the functions of layers.

  /// Returns the builder of the next operation.
  Builder next() const { return builder(int(operations_.size())); }

  const TensorShape& input_shape(const LayerNode& node) const;

  /// Returns the layer's input in the format of values: maps in next().map_format, others as rows.
  Value& input(const LayerNode& node) { return value(layers_[node.index].inputs[0]); }

  /// Returns the layer's second input, or null.
  Value* second_input(const LayerNode& node);

  /// Returns all inputs of the layer.
  std::vector<Value*> inputs(const LayerNode& node);

  const Model& model() const { return model_; }

  /// Whether the layer reads the images: fp32 in plain order, until input() converts them.
  bool reads_images(const LayerNode& node) const {
    return layers_[node.index].inputs[0] == kImages;
  }
  Value& images() { return *images_; }

  /// Returns the images as samples of `shape`, which has the same number of elements.
  Value& images_as(const TensorShape& shape);

  /// Whether all readers of the result are linear layers that take maps as they are.
  bool read_by_linear_only(const LayerNode& node) const;

  /// Adds the operation that `make` returns, given its result.
  template <typename Make>
  Value& add_made(Make make) {
    Value& result = values_.emplace_back();
    append(with_layer_named([&] { return make(result); }), result);
    return result;
  }

  /// Adds an `Op` constructed from a Builder, `arguments` and its result.
  template <typename Op, typename... Arguments>
  Value& add(Arguments&&... arguments) {
    return add_made([&](Value& result) {
      return std::make_unique<Op>(next(), std::forward<Arguments>(arguments)..., result);
    });
  }

  /// Converts `x` (B,F) to the type of values.
  Value& rows(Value& x) { return rows(x, next().type()); }

  Value& reordered(Value& x, const dnnl::memory::desc& format);

  /// Returns `map`, whose samples have shape `from`, as rows of a matrix.
  Value& flat(Value& map, const TensorShape& from, const TensorShape& shape);

 private:
  Builder builder(int time) const;
  const Layer& layer_of(size_t i) const { return model_.layers[size_t(layers_[i].layer)]; }
  Value* add_layer(const LayerNode& node);
  Value& value(int index);
  Value& rows(Value& x, dnnl::memory::data_type type);
  Value& plain(Value& x);
  bool takes_maps(const Layer& linear) const;
  void append(std::unique_ptr<Operation> operation, Value& result);

  /// Throws Error{InvalidInput} naming the layer if oneDNN cannot do what `build` needs.
  template <typename Build>
  auto with_layer_named(Build build) const {
    try {
      return build();
    } catch (const dnnl::error& e) {
      throw Error(Errc::InvalidInput,
                  "layer '" + layer_under_way_ + "': oneDNN cannot compute this: " + e.what());
    }
  }

  const Model& model_;
  const std::vector<FusedLayer>& layers_;
  const Execution execution_;
  std::deque<Value> values_;  // a deque keeps addresses valid
  Value* images_ = nullptr;
  Value* converted_images_ = nullptr;      // in the format of values; made on first use
  std::vector<dnnl::memory> image_views_;  // point to the images that forward() is given
  std::vector<Value*> results_;            // of each fused layer
  std::vector<PlacedOperation> operations_;
  std::string layer_under_way_;  // whose operations are being made
};

/// Adds the layer's operations and returns its result. One function for each row of layers.def.
#define DLFLOW_LAYER(Kind, word, required, optional, relu, gpu) \
  Value& add_##word(Assembly& assembly, const LayerNode& node);
#include "runtime/nn/layers.def"
#undef DLFLOW_LAYER

}  // namespace dlflow::runtime
