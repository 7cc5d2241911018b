#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/nn/fusion.h"
#include "runtime/nn/operation.h"

/// How a network's layers become operations. Each kind of layer has a function in the file of its
/// kernels, which knows the formats that it wants; what is the same for all of them is here.
namespace dlflow::runtime {

/// A fused layer whose operations are being made.
struct Place {
  size_t index;  ///< among the fused layers
  const Layer& layer;
  bool relu;    ///< its result is that of a ReLU
  bool capped;  ///< which is a ReLU6
};

/// An operation in the order of execution.
struct PlacedOperation {
  std::unique_ptr<Operation> operation;
  const Value* result;
  std::string forward_name, backward_name, again_name;  ///< in timelines
  std::vector<size_t> parameters;                       ///< operation->parameters()
  std::vector<size_t> shared_parameters;                ///< operation->shared_parameters()
};

/// How a network is to be executed; what it is made of belongs to it, not to the assembly.
struct Execution {
  Arena& arena;
  ParameterMemory& parameters;
  int64_t batch;
  bool training;
  bool joint;  ///< batch statistics are those of several networks
  Compute compute;
  const Draws& draws;
  const std::span<const float>& lengths;  ///< Builder::lengths
};

/// The operations of a network and the values between them.
class Assembly {
 public:
  /// Makes all operations of the forward pass. `model` and `layers` must outlive this. Throws
  /// Error{InvalidInput} naming the layer if oneDNN has no optimised kernel for it.
  Assembly(const Model& model, const std::vector<FusedLayer>& layers, const Execution& execution);

  /// To be called once, after the last reader of every value is known.
  void prepare_backward();

  const std::vector<PlacedOperation>& operations() const { return operations_; }

  /// fp32, one row per sample.
  Value& scores() { return *results_.back(); }

  /// Bytes of what forward() is given.
  size_t images_size() const { return images_->desc().get_size(); }

  /// `images` are what the next forward pass reads.
  void bind(const float* images);

  // For the functions of layers.

  /// For the operation that is made next.
  Builder next() const { return builder(int(operations_.size())); }

  const TensorShape& input_shape(const Place& place) const;

  /// What the layer reads, in the format of values: maps in next().map_format, else rows.
  Value& input(const Place& place) { return value(layers_[place.index].inputs[0]); }

  /// The other value that it reads; null if there is none.
  Value* second_input(const Place& place);

  /// All values that it reads.
  std::vector<Value*> inputs(const Place& place);

  const Model& model() const { return model_; }

  /// It reads the images: fp32 in plain order, until input() converts them.
  bool reads_images(const Place& place) const { return layers_[place.index].inputs[0] == kImages; }
  Value& images() { return *images_; }

  /// The images as samples of `shape`, which has as many numbers.
  Value& images_as(const TensorShape& shape);

  /// The result is read by linear layers only, which take maps as they are.
  bool read_by_linear_only(const Place& place) const;

  /// Adds what `make`, given a result, returns.
  template <typename Make>
  Value& add_made(Make make) {
    Value& result = values_.emplace_back();
    append(with_layer_named([&] { return make(result); }), result);
    return result;
  }

  /// Adds an `Op` that is made of a Builder, `arguments` and its result.
  template <typename Op, typename... Arguments>
  Value& add(Arguments&&... arguments) {
    return add_made([&](Value& result) {
      return std::make_unique<Op>(next(), std::forward<Arguments>(arguments)..., result);
    });
  }

  /// `x`, of (B,F), as numbers of the type of values.
  Value& rows(Value& x) { return rows(x, next().type()); }

  Value& reordered(Value& x, const dnnl::memory::desc& format);

  /// `map`, of one sample's shape `from`, as rows of a matrix.
  Value& flat(Value& map, const TensorShape& from, const TensorShape& shape);

 private:
  Builder builder(int time) const;
  const Layer& layer_of(size_t i) const { return model_.layers[size_t(layers_[i].layer)]; }
  Value* add_layer(const Place& place);
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
  std::deque<Value> values_;  // addresses stay
  Value* images_ = nullptr;
  Value* converted_images_ = nullptr;      // in the format of values, if somebody wants them
  std::vector<dnnl::memory> image_views_;  // of what forward() is given
  std::vector<Value*> results_;            // of each fused layer
  std::vector<PlacedOperation> operations_;
  std::string layer_under_way_;  // that operations are made for
};

/// The layer's operations; returns its result. One function for each row of layers.def.
#define DLFLOW_LAYER(Kind, word, required, optional, relu, gpu) \
  Value& add_##word(Assembly& assembly, const Place& place);
#include "runtime/nn/layers.def"
#undef DLFLOW_LAYER

}  // namespace dlflow::runtime
