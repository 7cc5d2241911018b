#include "runtime/onnx/graph_values.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace dlflow::runtime {
namespace {

using Kind = GraphValue::Kind;

constexpr size_t kMaxCopied = size_t{1} << 26;  // numbers
constexpr size_t kMaxComputed = size_t{1} << 28;

/// Returns "layer1.0.conv1" for "/layer1/layer1.0/conv1/Conv", a node name of PyTorch: a module's
/// name may repeat its parent's.
std::string module_of(const std::string& node) {
  if (!node.starts_with('/')) return {};
  std::vector<std::string> modules;
  std::vector<std::string> parts = split(node.substr(1), '/');
  parts.pop_back();
  for (const std::string& part : parts) {
    if (!modules.empty() && part.starts_with(modules.back() + ".")) {
      modules.back() = part;
    } else {
      modules.push_back(part);
    }
  }
  return join(modules, ".");
}

/// Returns "conv1" for "conv1.weight", and nothing for "onnx::Conv_17".
std::string owner_of(const std::string& weights) {
  const size_t end = weights.ends_with(".weight") ? weights.rfind('.') : 0;
  return weights.find(':') == std::string::npos ? weights.substr(0, end) : "";
}

/// Returns one number for each of `count` channels.
std::vector<float> spread(const std::vector<float>& numbers, size_t count) {
  return numbers.size() == 1 ? std::vector<float>(count, numbers[0]) : numbers;
}

/// True for an embedding and a product.
bool may_be_tied(const std::vector<const OnnxNode*>& readers) {
  const auto is = [](const OnnxNode* reader, std::initializer_list<const char*> operations) {
    return reader != nullptr && std::ranges::count(operations, reader->operation) > 0;
  };
  const auto count = [&](std::initializer_list<const char*> operations) {
    return std::ranges::count_if(readers, [&](const auto* each) { return is(each, operations); });
  };
  return readers.size() == 2 && count({"Gather"}) == 1 &&
         count({"Gemm", "MatMul", "Transpose"}) == 1;
}

}  // namespace

void refuse_shared(const std::string& name) {
  refuse("'" + escaped(name) +
         "' are the weights of two nodes; in dlflow only a linear layer that is tied to an "
         "embedding shares weights");
}

void refuse(const std::string& why) { throw Error(Errc::InvalidInput, why); }

GraphValues::GraphValues(const OnnxFile& file, const std::vector<const OnnxNode*>& nodes,
                         size_t channels)
    : file_(file), channels_(channels) {
  for (const OnnxNode* node : nodes) {
    for (const std::string& input : node->inputs) readers_[input].push_back(node);
  }
  values_[file.inputs[0].name] = {};
  readers_[file.outputs[0].name].push_back(nullptr);
}

const GraphValue& GraphValues::at(const std::string& name) {
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second;
  const auto constant = file_.constants.find(name);
  if (constant == file_.constants.end()) refuse("nothing before it gives '" + escaped(name) + "'");
  return values_[name] = {.kind = Kind::Constant,
                          .constant = {std::shared_ptr<void>(), &constant->second}};
}

void GraphValues::give(const std::string& name, GraphValue value) {
  values_.insert_or_assign(name, std::move(value));
}

int GraphValues::layer_of(const std::string& name) {
  const GraphValue& value = at(name);
  if (value.kind == Kind::Constant) refuse("'" + escaped(name) + "' is a constant");
  if (value.kind == Kind::Padded) refuse("dlflow has no layer that gives '" + escaped(name) + "'");
  if (value.kind == Kind::Scaled) {
    normalize(value);
  } else if (value.layer == kImages) {
    has_raw_reader_ = true;
  }
  if (normalization_ && has_raw_reader_) {
    refuse("the input is read both unscaled and scaled");
  }
  return value.layer;
}

void GraphValues::normalize(const GraphValue& scaled) {
  const InputScale scale{spread(scaled.scale, channels_), spread(scaled.shift, channels_)};
  const bool changes_nothing =
      scale == InputScale{std::vector<float>(channels_, 1), std::vector<float>(channels_, 0)};
  if (changes_nothing) {
    has_raw_reader_ = true;
    return;
  }
  if (normalization_ && normalization_ != scale) refuse("the input is read with two scales");
  normalization_ = scale;
}

void GraphValues::count_copy(const std::string& name, const OnnxTensor& weights) {
  if (weights.shape.size() > 1 && !may_be_tied(readers_of(name))) refuse_shared(name);
  num_copied_ += weights.size();
  if (num_copied_ > kMaxCopied)
    refuse("too many nodes read the weights '" + escaped(name) + "' and others");
}

void GraphValues::count_computed(const OnnxTensor& constant) {
  num_computed_ += constant.size();
  if (num_computed_ > kMaxComputed)
    refuse("it and other nodes compute constants of more than 2^28 numbers");
}

bool GraphValues::has_one_reader(int layer) const {
  return std::ranges::all_of(values_, [&](const auto& value) {
    const bool is_of_layer = value.second.kind != Kind::Constant && value.second.layer == layer;
    return !is_of_layer || readers_of(value.first).size() <= 1;
  });
}

const std::vector<const OnnxNode*>& GraphValues::readers_of(const std::string& name) const {
  static const std::vector<const OnnxNode*> none;
  const auto found = readers_.find(name);
  return found == readers_.end() ? none : found->second;
}

const std::string& NodeReader::name_of(size_t input) const {
  if (!has(input)) refuse("its input " + std::to_string(input + 1) + " is missing");
  return node_.inputs[input];
}

bool NodeReader::has(size_t input) const {
  return input < node_.inputs.size() && !node_.inputs[input].empty();
}

const GraphValue& NodeReader::value(size_t input) { return values_.at(name_of(input)); }

const OnnxTensor& NodeReader::constant(size_t input) {
  if (!is_constant(input)) refuse("'" + escaped(name_of(input)) + "' is not a constant");
  return *value(input).constant;
}

const std::vector<int64_t>& NodeReader::integers(size_t input) {
  const OnnxTensor& found = constant(input);
  if (!found.floats.empty()) refuse("'" + escaped(name_of(input)) + "' are not whole numbers");
  return found.integers;
}

ImportedTensor NodeReader::weights(size_t input) {
  const OnnxTensor& found = constant(input);
  if (found.floats.empty()) {
    refuse("'" + escaped(name_of(input)) + "' are not weights in floating-point numbers");
  }
  if (!is_only_reader(input)) values_.count_copy(name_of(input), found);
  return {found.shape, found.floats};
}

int64_t NodeReader::integer(const std::string& name, int64_t usual) const {
  const auto found = node_.settings.find(name);
  if (found == node_.settings.end()) return usual;
  if (const auto* number = std::get_if<int64_t>(&found->second)) return *number;
  refuse("its attribute '" + escaped(name) + "' is not a whole number");
}

float NodeReader::number(const std::string& name, float usual) const {
  const auto found = node_.settings.find(name);
  if (found == node_.settings.end()) return usual;
  if (const auto* number = std::get_if<float>(&found->second)) return *number;
  refuse("its attribute '" + escaped(name) + "' is not a number");
}

std::string NodeReader::text(const std::string& name, const std::string& usual) const {
  const auto found = node_.settings.find(name);
  if (found == node_.settings.end()) return usual;
  if (const auto* text = std::get_if<std::string>(&found->second)) return *text;
  refuse("its attribute '" + escaped(name) + "' is not a text");
}

std::vector<int64_t> NodeReader::integers(const std::string& name) const {
  const auto found = node_.settings.find(name);
  if (found == node_.settings.end()) return {};
  if (const auto* list = std::get_if<std::vector<int64_t>>(&found->second)) return *list;
  refuse("its attribute '" + escaped(name) + "' is not a list of whole numbers");
}

Extent NodeReader::take_padding() {
  if (!is(Kind::Padded, 0)) return 0;
  const GraphValue padded = value(0);
  if (!is_only_reader(0)) refuse("dlflow pads only within one convolution or pool");
  values_.give(name_of(0), {.layer = padded.layer});
  return padded.padding;
}

OnnxTensor NodeReader::constant_setting() const {
  for (const auto& [name, setting] : node_.settings) {
    if (const auto* tensor = std::get_if<OnnxTensor>(&setting)) return *tensor;
    if (const auto* one = std::get_if<float>(&setting)) return {{}, {*one}, {}};
    if (const auto* whole = std::get_if<int64_t>(&setting)) return {{}, {}, {*whole}};
    if (const auto* many = std::get_if<std::vector<float>>(&setting))
      return {{int64_t(many->size())}, *many, {}};
    if (const auto* all = std::get_if<std::vector<int64_t>>(&setting))
      return {{int64_t(all->size())}, {}, *all};
  }
  refuse("its constant is of a kind that dlflow does not read");
}

std::vector<int64_t> NodeReader::list(const std::string& name, size_t input) {
  return has(input) ? integers(input) : integers(name);
}

bool NodeReader::is_only_reader(size_t input) const {
  return values_.readers_of(name_of(input)).size() == 1;
}

bool NodeReader::is_read_by_only(const std::vector<std::string>& operations) const {
  return std::ranges::all_of(values_.readers_of(node_.outputs[0]), [&](const OnnxNode* reader) {
    return reader != nullptr && std::ranges::count(operations, reader->operation) > 0;
  });
}

std::string NodeReader::owner_of_weights(size_t input) {
  const std::string& from = value(input).turned_from;
  return owner_of(from.empty() ? name_of(input) : from);
}

int NodeReader::add(Layer layer, std::vector<int> inputs, std::optional<size_t> weights) {
  const std::string owner = weights ? owner_of_weights(*weights) : "";
  const int index = network_.add(std::move(layer), std::move(inputs),
                                 owner.empty() ? module_of(node_.name) : owner);
  give_layer(index);
  return index;
}

void NodeReader::give_constant(OnnxTensor constant) {
  values_.count_computed(constant);
  give({.kind = Kind::Constant,
        .constant = std::make_shared<const OnnxTensor>(std::move(constant))});
}

}  // namespace dlflow::runtime
