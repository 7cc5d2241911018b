#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/onnx/input_scale.h"
#include "runtime/onnx/network_builder.h"
#include "runtime/onnx/onnx_file.h"

namespace dlflow::runtime {

/// A value of a graph during reading: the result of a layer, a constant, or an intermediate value
/// that the next node completes. Nodes that use an intermediate value otherwise are refused.
struct GraphValue {
  enum class Kind {
    Layer,     ///< the result of `layer`, or the input
    Constant,  ///< `constant`
    Scaled,    ///< the input, times `scale`, plus `shift`
    Padded,    ///< result of `layer` with `padding` zeros on each side
  };
  Kind kind = Kind::Layer;
  int layer = kImages;
  std::shared_ptr<const OnnxTensor> constant = {};
  bool is_shared = false;         ///< a constant that other nodes read in another form
  std::string turned_from = {};   ///< the constant of which this is a transposed copy
  std::vector<float> scale = {};  ///< one number, or one for each channel
  std::vector<float> shift = {};
  Extent padding = {};
};

/// The values of a graph by name, and the nodes that read them.
class GraphValues {
 public:
  /// Only `nodes` and the output count as readers. The arguments must outlive this.
  /// \param channels  of the input
  GraphValues(const OnnxFile& file, const std::vector<const OnnxNode*>& nodes, size_t channels);

  /// Throws Error{InvalidInput} if no earlier node provides the value.
  const GraphValue& at(const std::string& name);
  void give(const std::string& name, GraphValue value);

  /// Returns the layer whose result is `name`. A scaled input becomes the normalised input of the
  /// network. Throws Error{InvalidInput} if `name` is no layer's result.
  int layer_of(const std::string& name);

  /// Records that another node reads these weights, too. Exporters store equal biases once; layers
  /// get copies. Throws Error{InvalidInput} for matrices, which a network would train together,
  /// unless an embedding and a linear layer may be tied by them, and for copies that take much more
  /// memory than the file.
  void count_copy(const std::string& name, const OnnxTensor& weights);

  /// Whether at most one node reads the result of `layer`, by any name: changing the layer to
  /// include that node's effect is then safe.
  bool has_one_reader(int layer) const;

  const std::vector<const OnnxNode*>& readers_of(const std::string& name) const;

  /// Records a computed constant. Throws Error{InvalidInput} if they take too much memory.
  void count_computed(const OnnxTensor& constant);

  int64_t operator_set() const { return file_.operator_set; }

  /// The number of samples in the file; any if below 1.
  int64_t batch() const { return file_.inputs[0].sizes.empty() ? -1 : file_.inputs[0].sizes[0]; }

  /// The scale and shift that the graph first applies to its input.
  const std::optional<InputScale>& normalization() const { return normalization_; }

 private:
  void normalize(const GraphValue& scaled);

  const OnnxFile& file_;
  size_t channels_;
  std::map<std::string, GraphValue> values_;
  std::map<std::string, std::vector<const OnnxNode*>> readers_;
  std::optional<InputScale> normalization_;
  bool has_raw_reader_ = false;  // whether a node reads the unscaled input
  size_t num_copied_ = 0;        // numbers
  size_t num_computed_ = 0;
};

/// A node during reading, with its inputs and result. Throws Error{InvalidInput}, without the
/// node's name, for anything that dlflow does not support.
class NodeReader {
 public:
  /// The arguments must outlive this. \param notes  differences from the file, a sentence each
  NodeReader(const OnnxNode& node, GraphValues& values, NetworkBuilder& network,
             std::vector<std::string>& notes)
      : node_(node), values_(values), network_(network), notes_(notes) {}

  /// The file's version of ONNX's operations.
  int64_t operator_set() const { return values_.operator_set(); }
  const std::string& operation() const { return node_.operation; }
  const std::string& result() const { return node_.outputs[0]; }
  NetworkBuilder& network() { return network_; }
  void note(const std::string& sentence) { notes_.push_back(sentence); }

  int64_t batch() const { return values_.batch(); }

  /// Inputs are numbered from 0. Some may be absent.
  size_t num_inputs() const { return node_.inputs.size(); }
  bool has(size_t input) const;
  const std::string& name_of(size_t input) const;
  const GraphValue& value(size_t input);
  int layer(size_t input) { return values_.layer_of(name_of(input)); }
  const TensorShape& shape(size_t input) { return network_.shape_of(layer(input)); }
  /// Removes and returns the zeros that an earlier node put around the first input.
  Extent take_padding();
  bool is(GraphValue::Kind kind, size_t input) { return value(input).kind == kind; }
  bool is_constant(size_t input) { return is(GraphValue::Kind::Constant, input); }
  const OnnxTensor& constant(size_t input);
  const std::vector<int64_t>& integers(size_t input);

  /// Returns the weights of a layer as in the file.
  ImportedTensor weights(size_t input);

  /// Returns an attribute of the node, or `usual`.
  int64_t integer(const std::string& name, int64_t usual) const;
  float number(const std::string& name, float usual) const;
  std::string text(const std::string& name, const std::string& usual) const;
  std::vector<int64_t> integers(const std::string& name) const;

  /// Returns the value of a node that provides a constant.
  OnnxTensor constant_setting() const;

  /// Reads a list that is an attribute or an input, depending on the operator set.
  std::vector<int64_t> list(const std::string& name, size_t input);

  /// Whether only this node reads the result of the layer behind `input`.
  bool is_only_reader_of_layer(size_t input) { return values_.has_one_reader(value(input).layer); }
  /// Whether only this node reads `input`.
  bool is_only_reader(size_t input) const;
  /// Whether another node has the same weights, perhaps in another form.
  bool shares(size_t input) { return !is_only_reader(input) || value(input).is_shared; }
  /// Whether all readers of the node's result are among these operations.
  bool is_read_by_only(const std::vector<std::string>& operations) const;

  /// Adds a layer that reads `inputs`, as the node's result. \param weights  the input with its
  /// weights, which name the layer; none: the node names it
  int add(Layer layer, std::vector<int> inputs, std::optional<size_t> weights = {});

  void give(GraphValue value) { values_.give(node_.outputs[0], std::move(value)); }
  void give_layer(int layer) { give({.layer = layer}); }
  void give_constant(OnnxTensor constant);

 private:
  /// Returns the name of the layer that owns the weights in the input, if their name contains it.
  std::string owner_of_weights(size_t input);

  const OnnxNode& node_;
  GraphValues& values_;
  NetworkBuilder& network_;
  std::vector<std::string>& notes_;
};

/// Throws Error{InvalidInput} with `why`.
[[noreturn]] void refuse(const std::string& why);

/// Throws because two layers would have the weights `name`.
[[noreturn]] void refuse_shared(const std::string& name);

}  // namespace dlflow::runtime
