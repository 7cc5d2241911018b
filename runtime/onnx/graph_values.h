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

/// A value of a graph, while it is read: the result of a layer, a constant, or something that the
/// next node completes. A node that does something else with such a value is refused.
struct GraphValue {
  enum class Kind {
    Layer,     ///< the result of `layer`, or the input
    Constant,  ///< `constant`
    Scaled,    ///< the input, times `scale`, plus `shift`
    Padded,    ///< that result with `padding` zeros on each side of a map
  };
  Kind kind = Kind::Layer;
  int layer = kImages;
  std::shared_ptr<const OnnxTensor> constant = {};
  bool is_shared = false;         ///< a constant that others read in another form
  std::string turned_from = {};   ///< the name of the constant that this is in another order
  std::vector<float> scale = {};  ///< one number, or one for each channel
  std::vector<float> shift = {};
  Extent padding = {};
};

/// The values of a graph by their names, and who reads them.
class GraphValues {
 public:
  /// Only `nodes` count as readers, and the output. All of it outlives the values.
  /// \param channels  of the input
  GraphValues(const OnnxFile& file, const std::vector<const OnnxNode*>& nodes, size_t channels);

  /// Throws Error{InvalidInput} if no node before has given it.
  const GraphValue& at(const std::string& name);
  void give(const std::string& name, GraphValue value);

  /// The layer whose result `name` is. A scaled input becomes the network's own, normalised.
  /// Throws Error{InvalidInput} if it is none.
  int layer_of(const std::string& name);

  /// Another node reads these weights, too. Exporters store equal biases once; layers get copies.
  /// Throws Error{InvalidInput} for matrices, which a network would train together, unless they may
  /// be those of an embedding and of a linear layer that is tied to it, and for copies that take
  /// much more memory than the file.
  void count_copy(const std::string& name, const OnnxTensor& weights);

  /// Whether one node alone goes on from the result of `layer`, by whatever name: a layer that
  /// takes what that node does upon it changes nothing else.
  bool has_one_reader(int layer) const;

  const std::vector<const OnnxNode*>& readers_of(const std::string& name) const;

  /// Constants that are worked out take memory. Throws Error{InvalidInput} if it is too much.
  void count_computed(const OnnxTensor& constant);

  int64_t operator_set() const { return file_.operator_set; }

  /// The number of samples that the file says; below 1: any.
  int64_t batch() const { return file_.inputs[0].sizes.empty() ? -1 : file_.inputs[0].sizes[0]; }

  /// What the graph does with its input before anything else.
  const std::optional<InputScale>& normalization() const { return normalization_; }

 private:
  void normalize(const GraphValue& scaled);

  const OnnxFile& file_;
  size_t channels_;
  std::map<std::string, GraphValue> values_;
  std::map<std::string, std::vector<const OnnxNode*>> readers_;
  std::optional<InputScale> normalization_;
  bool has_raw_reader_ = false;  // of the input
  size_t num_copied_ = 0;        // numbers
  size_t num_computed_ = 0;
};

/// A node while it is read: what it reads, and what it gives. Throws Error{InvalidInput}, without
/// the node's name, for what dlflow cannot do.
class NodeReader {
 public:
  /// All outlive it. \param notes  what differs from the file, a sentence each
  NodeReader(const OnnxNode& node, GraphValues& values, NetworkBuilder& network,
             std::vector<std::string>& notes)
      : node_(node), values_(values), network_(network), notes_(notes) {}

  /// The version of ONNX's operations that the file has.
  int64_t operator_set() const { return values_.operator_set(); }
  const std::string& operation() const { return node_.operation; }
  const std::string& result() const { return node_.outputs[0]; }
  NetworkBuilder& network() { return network_; }
  void note(const std::string& sentence) { notes_.push_back(sentence); }

  int64_t batch() const { return values_.batch(); }

  /// Inputs are numbered from 0. One may be left out.
  size_t num_inputs() const { return node_.inputs.size(); }
  bool has(size_t input) const;
  const std::string& name_of(size_t input) const;
  const GraphValue& value(size_t input);
  int layer(size_t input) { return values_.layer_of(name_of(input)); }
  const TensorShape& shape(size_t input) { return network_.shape_of(layer(input)); }
  /// Zeros that a node before has put around its first input, which is then that of this node.
  Extent take_padding();
  bool is(GraphValue::Kind kind, size_t input) { return value(input).kind == kind; }
  bool is_constant(size_t input) { return is(GraphValue::Kind::Constant, input); }
  const OnnxTensor& constant(size_t input);
  const std::vector<int64_t>& integers(size_t input);

  /// Weights of a layer, as the file has them.
  ImportedTensor weights(size_t input);

  /// A setting of the node, or `usual`.
  int64_t integer(const std::string& name, int64_t usual) const;
  float number(const std::string& name, float usual) const;
  std::string text(const std::string& name, const std::string& usual) const;
  std::vector<int64_t> integers(const std::string& name) const;

  /// The value of a node that gives a constant.
  OnnxTensor constant_setting() const;

  /// Of operator sets that give a list as a setting, and of those that give it as an input.
  std::vector<int64_t> list(const std::string& name, size_t input);

  /// Only this node goes on from the layer whose result its input is.
  bool is_only_reader_of_layer(size_t input) { return values_.has_one_reader(value(input).layer); }
  /// Only this node reads its input.
  bool is_only_reader(size_t input) const;
  /// These weights are those of another node, too, perhaps in another form.
  bool shares(size_t input) { return !is_only_reader(input) || value(input).is_shared; }
  /// All that reads the node's result is one of these operations.
  bool is_read_by_only(const std::vector<std::string>& operations) const;

  /// Adds a layer that reads `inputs`, and gives its result. \param weights  the input that holds
  /// its weights, after which it is called; none: it is called after the node
  int add(Layer layer, std::vector<int> inputs, std::optional<size_t> weights = {});

  void give(GraphValue value) { values_.give(node_.outputs[0], std::move(value)); }
  void give_layer(int layer) { give({.layer = layer}); }
  void give_constant(OnnxTensor constant);

 private:
  /// The layer whose weights the input has, as far as its name says.
  std::string owner_of_weights(size_t input);

  const OnnxNode& node_;
  GraphValues& values_;
  NetworkBuilder& network_;
  std::vector<std::string>& notes_;
};

/// Throws Error{InvalidInput}.
[[noreturn]] void refuse(const std::string& why);

/// Of the weights `name`, which two layers would have.
[[noreturn]] void refuse_shared(const std::string& name);

}  // namespace dlflow::runtime
