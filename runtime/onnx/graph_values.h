#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/onnx/input_scale.h"
#include "runtime/onnx/network_builder.h"
#include "runtime/onnx/onnx_file.h"
#include "runtime/onnx/views.h"

namespace dlflow::runtime {

/// Products of queries and keys, on the way to attention.
struct Scores {
  View queries, keys;  ///< keys as (..., T, D)
  float factor = 1;
  bool causal = false;
  bool is_masked = false;
  bool of_tokens = false;  ///< positions behind the end of a text are left out
};

/// A value of a graph, while it is read.
///
/// ONNX has smaller operations than dlflow: a linear layer is a product and a sum, GELU is five
/// nodes. So a value is not always the result of a layer. It may be a constant, or something on the
/// way to a layer; the node that completes the layer adds it, and a node that does something else
/// with such a value is refused.
struct GraphValue {
  enum class Kind {
    Layer,          ///< the result of `layer`, or the input
    Constant,       ///< `constant`
    Scaled,         ///< that result, times `scale`, plus `shift`
    Erf,            ///< the error function of that result / sqrt(2)
    ErfPlusOne,     ///< the same + 1
    TwiceGelu,      ///< the same, times that result
    Squares,        ///< of that result
    MeanSquare,     ///< the mean of the squares along the last dimension
    ShiftedMean,    ///< the same plus the epsilon of normalisations
    RootedMean,     ///< its square root
    InverseRoot,    ///< 1 / that root
    MeansAcross,    ///< means along the rows of that result, `size.width` of each
    MeansTurned,    ///< the same, its two directions swapped
    MeansOfBoth,    ///< their means along the columns, `size.height` of each, still swapped
    View,           ///< `view`
    TimesCosine,    ///< `view`, times the cosines of rotary positions
    TimesSine,      ///< the same with sines
    Negated,        ///< `view`, times -1
    Swapped,        ///< whole heads: the second half of each, negated, then the first; `view` is
                    ///< these heads
    SwappedBySine,  ///< the same, times the sines of rotary positions
    FirstRotated,   ///< the first halves of rotated heads, of which `view` is the first half
    SecondRotated,  ///< the second halves of the same
    TextLengths,    ///< how many tokens each text has, an input; of `sizes`
    HasToken,       ///< whether each position has a token; of `sizes`
    KeptTokens,     ///< that result, 0 where there is no token
    SumOfTokens,    ///< the sum of these along the positions
    Scores,         ///< `scores`
    Shares,         ///< their softmax
    NoShares,       ///< where these are no numbers, which is nowhere
    Gone,           ///< that of a layer which has become a part of another
    Padded,         ///< that result with `padding` zeros on each side of a map
    Grouped,        ///< that result, reshaped to (B, groups, rest)
    Normalized,     ///< the result of the group normalisation `layer`, so reshaped
  };
  Kind kind = Kind::Layer;
  int layer = kImages;
  std::shared_ptr<const OnnxTensor> constant = {};
  bool is_shared = false;         ///< a constant that others read in another form
  std::string turned_from = {};   ///< the name of the constant that this is in another order
  std::vector<float> scale = {};  ///< one number, or one for each channel
  std::vector<float> shift = {};
  Extent padding = {};
  Extent size = {};
  int64_t groups = 0;
  std::vector<int64_t> sizes = {};  ///< -1 is that of the batch, the first one
  std::shared_ptr<const View> view = {};
  std::shared_ptr<const Scores> scores = {};
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

  /// Removes the layers from `first` on, the last ones. Values that are made of them are gone.
  void forget_layers_from(int first);

  /// Constants that are worked out take memory. Throws Error{InvalidInput} if it is too much.
  void count_computed(const OnnxTensor& constant);

  int64_t operator_set() const { return file_.operator_set; }

  /// The number of samples that the file says; below 1: any.
  int64_t batch() const { return file_.inputs[0].sizes.empty() ? -1 : file_.inputs[0].sizes[0]; }

  /// The graph is told how many tokens each text has.
  bool has_text_lengths() const { return has_text_lengths_; }
  void give_text_lengths(const std::string& name);

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
  bool has_text_lengths_ = false;
  size_t num_copied_ = 0;  // numbers
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
  bool has_text_lengths() const { return values_.has_text_lengths(); }
  size_t num_outputs() const { return node_.outputs.size(); }

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

  bool has_setting(const std::string& name) const { return node_.settings.contains(name); }

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

  /// Calls a layer after the input that holds its weights, if that has a name.
  void call(int layer, size_t weights);

  /// Removes the layers from `first` on, the last ones, in favour of one that does what they do.
  void remove_layers_from(int first);

  /// Of the layer that stands for several: what it is called like `first`, without its last word.
  std::string joined_name(int first) const;

  void give(GraphValue value, size_t output = 0) {
    if (!node_.outputs[output].empty()) values_.give(node_.outputs[output], std::move(value));
  }
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
