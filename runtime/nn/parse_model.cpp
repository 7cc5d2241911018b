#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/text.h"
#include "runtime/nn/layer_shapes.h"
#include "runtime/nn/layer_syntax.h"
#include "runtime/nn/model.h"
#include "runtime/nn/model_parts.h"
#include "runtime/nn/model_values.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr size_t kMaxLayers = 10'000;
constexpr int64_t kMaxValue = 1 << 28;             // numbers in one sample's value
constexpr int64_t kMaxValues = int64_t(1) << 30;   // numbers in all values of one sample
constexpr int64_t kMaxWeights = int64_t(1) << 31;  // numbers in one layer

/// The layer that other libraries call `word`; empty if none, or if it is spelled similarly.
std::string layer_called(const std::string& word) {
  static const std::map<std::string, std::string> words = {
      {"dense", "linear"}, {"Dense", "linear"}, {"fc", "linear"}, {"swish", "silu"}};
  const auto found = words.find(word);
  return found == words.end() ? "" : found->second;
}

/// Whether the shape has more numbers than `limit`; no product overflows.
bool exceeds(const TensorShape& shape, int64_t limit) {
  int64_t count = 1;
  for (const int64_t n : shape) {
    if (n > limit / count) return true;
    count *= n;
  }
  return false;
}

/// `entry` without attributes that its layer does not have, whose values need no check.
ModelEntry with_known_attributes(const ModelEntry& entry, const LayerSyntax& syntax,
                                 const std::vector<std::string>& optional) {
  if (!entry.attributes.IsMap()) return entry;
  ModelEntry known = {entry.word, entry.at, YAML::Node(YAML::NodeType::Map)};
  for (const auto& item : entry.attributes) {
    const std::string key = item.first.IsScalar() ? item.first.Scalar() : "";
    if (std::ranges::find(syntax.required, key) == syntax.required.end() &&
        std::ranges::find(optional, key) == optional.end()) {
      continue;
    }
    known.attributes.force_insert(item.first, item.second);
  }
  return known;
}

class Parser {
 public:
  explicit Parser(std::string file) : values_(std::move(file)) {}

  Model parse(const std::string& text) {
    if (text.size() > kMaxBytes) {
      values_.report(0, 0, "the file is larger than 1 MiB, which no model needs");
    } else {
      read_file(text);
    }
    values_.throw_mistakes();
    model_.text = text;
    return std::move(model_);
  }

 private:
  void read_file(const std::string& text) {
    YAML::Node root;
    try {
      root = YAML::Load(text);
    } catch (const YAML::ParserException& e) {
      return values_.report(e.mark.line + 1, e.mark.column + 1,
                            "not valid YAML: " + e.msg + "; check the indentation and brackets");
    }
    if (!root.IsMap())
      return values_.report(1, 1,
                            "a model is a YAML mapping with 'name', 'input' and 'layers'; "
                            "`dlflow model import` writes one from an ONNX file");
    values_.check_keys(root, {"name", "input", "layers"},
                       {"blocks", "loss", "ignored_token", "init"}, "a model");
    read_head(root);
    if (root["blocks"]) read_blocks(root["blocks"]);
    if (root["layers"] && model_.input.size() > 0) {
      ModelScope scope;
      read_layers(root["layers"], scope);
      if (values_.num_mistakes() == 0) check_ends(values_, model_, root["layers"]);
    }
  }

  void read_head(const YAML::Node& root) {
    if (const YAML::Node name = root["name"]) model_.name = values_.text_of(name, "'name'");
    read_loss(values_, root, model_);
    if (const YAML::Node init = root["init"]) {
      model_.init = read_init(values_, init, LayerKind::Linear, nullptr);
    }
    const YAML::Node input = root["input"];
    if (!input) return;
    if (!input.IsSequence() || (input.size() != 1 && input.size() != 3)) {
      return values_.report(input,
                            "'input' must be [channels, height, width], or [features] or [tokens]");
    }
    TensorShape shape;
    for (const YAML::Node& size : input) {
      shape.push_back(values_.integer(size, "'input'", 1, kMaxUnits, nullptr).value_or(0));
    }
    if (std::count(shape.begin(), shape.end(), 0) == 0) model_.input = shape;
  }

  void read_blocks(const YAML::Node& blocks) {
    if (!blocks.IsMap())
      return values_.report(blocks, "'blocks' must be a mapping of names to layers");
    for (const auto& block : blocks) {
      const std::string name = values_.text_of(block.first, "the name of a block");
      if (layer_syntax().contains(name)) {
        values_.report(block.first, "'" + name + "' is a layer; choose another name for the block");
      } else if (!block.second.IsSequence() || block.second.size() == 0) {
        values_.report(block.first, "block '" + name + "' needs a list of layers");
      } else if (!blocks_.emplace(name, block.second).second) {
        values_.report(block.first, "block '" + name + "' occurs twice");
      }
    }
  }

  void read_layers(const YAML::Node& list, ModelScope& scope) {
    if (!list.IsSequence() || list.size() == 0) {
      return values_.report(list, "'layers' must be a list with at least one layer");
    }
    for (const YAML::Node& node : list) {
      const std::optional<ModelEntry> entry = read_entry(node, scope);
      if (!entry) continue;
      if (model_.layers.size() >= kMaxLayers) {
        values_.report(entry->at, "more than 10,000 layers");
        return;
      }
      if (const auto syntax = layer_syntax().find(entry->word); syntax != layer_syntax().end()) {
        read_layer(*entry, syntax->second, scope);
      } else {
        read_block_use(*entry, scope);
      }
    }
  }

  std::optional<ModelEntry> read_entry(const YAML::Node& node, const ModelScope& scope) {
    ModelEntry entry;
    if (node.IsScalar()) {
      entry = {node.Scalar(), node, YAML::Node()};
    } else if (node.IsMap() && node.size() == 1) {
      const auto item = *node.begin();
      entry = {values_.text_of(item.first, "a layer"), item.first, item.second};
    } else {
      values_.report(
          node, "a layer is a word, or a word and its attributes: `conv2d: {channels: 8, ...}`");
      return {};
    }
    std::vector<std::string> known;
    for (const auto& [word, syntax] : layer_syntax()) known.push_back(word);
    if (scope.prefix.empty()) {
      for (const auto& [word, layers] : blocks_) known.push_back(word);
    }
    if (std::find(known.begin(), known.end(), entry.word) == known.end()) {
      const std::string meant = layer_called(entry.word);
      values_.report(entry.at, "unknown layer '" + entry.word + "'" +
                                   (meant.empty() ? did_you_mean(entry.word, known)
                                                  : "; did you mean '" + meant + "'?") +
                                   scope.use);
      return {};
    }
    if (!entry.attributes.IsNull() && !entry.attributes.IsMap()) {
      values_.report(entry.attributes, "the attributes of '" + entry.word +
                                           "' must be a mapping; write " + entry.word +
                                           ": {KEY: VALUE}");
      return {};
    }
    return entry;
  }

  void read_layer(const ModelEntry& given, const LayerSyntax& syntax, ModelScope& scope) {
    const size_t errors_before = values_.num_mistakes();
    std::vector<std::string> optional = syntax.optional;
    optional.emplace_back("name");
    optional.emplace_back("from");
    values_.check_keys(given.attributes, syntax.required, optional, "'" + given.word + "'",
                       given.at);
    const ModelEntry entry = with_known_attributes(given, syntax, optional);

    Layer layer;
    layer.kind = syntax.kind;
    layer.line = entry.at.Mark().line + 1;
    layer.column = entry.at.Mark().column + 1;
    read_attributes(values_, entry.attributes, model_.init, layer, scope);
    const YAML::Node name = attribute(entry.attributes, "name");
    const std::string own_name =
        name ? values_.text_of(name, "'name'", &scope) : default_name(entry.word);
    layer.name = scope.prefix + own_name;
    if (own_name == "input" || !layer_names_.insert(layer.name).second) {
      values_.report(name ? name : entry.at, "the name '" + layer.name + "' is taken" + scope.use);
    }
    if (syntax.reads_list) {
      resolve_list(values_, entry, layer, scope);
    } else {
      resolve_inputs(values_, entry, syntax.reads_two(), layer, scope);
    }
    if (const YAML::Node tied = attribute(entry.attributes, "tied"))
      resolve_tied(values_, model_, tied, layer, scope);
    if (values_.num_mistakes() == errors_before) check_shape(entry, layer, scope);
    scope.previous = int(model_.layers.size());
    scope.names[own_name] = scope.previous;
    model_.layers.push_back(std::move(layer));
  }

  void check_shape(const ModelEntry& entry, Layer& layer, const ModelScope& scope) {
    std::vector<TensorShape> shapes;
    std::vector<std::string> names;
    for (const int index : layer.inputs) {
      shapes.push_back(model_.shape_of(index));
      if (shapes.back().empty()) return;  // already reported
      names.push_back(index == kImages ? "input" : model_.layers[size_t(index)].name);
    }
    if (layer.kind == LayerKind::Embedding && layer.inputs[0] != kImages) {
      return values_.report(entry.at,
                            "embedding reads only 'input', the numbers of tokens; here it reads '" +
                                names[0] + "'" + scope.use);
    }
    const std::string problem = infer_shape(layer, {shapes, names});
    if (!problem.empty()) return values_.report(entry.at, problem + scope.use);
    bool too_large = exceeds(layer.shape, kMaxValue);
    for (const LayerTensor& tensor : tensors_of(layer, shapes.at(0))) {
      too_large = too_large || exceeds(tensor.shape, kMaxWeights);
    }
    if (!too_large) num_values_ += num_numbers(layer.shape);
    if (too_large || num_values_ > kMaxValues) {
      layer.shape.clear();
      values_.report(entry.at,
                     "the layer is too large: its result is " + to_string(shapes[0]) + scope.use);
    }
  }

  void read_block_use(const ModelEntry& entry, ModelScope& outer) {
    ModelScope scope;
    const YAML::Node name = attribute(entry.attributes, "name");
    if (!name)
      return values_.report(entry.at, "a block needs a 'name', which its layers' names begin with");
    scope.prefix = values_.text_of(name, "'name'") + ".";
    scope.use = " (block '" + entry.word + "' used in line " +
                std::to_string(entry.at.Mark().line + 1) + ")";
    scope.input = scope.previous = outer.previous;
    if (const YAML::Node from = attribute(entry.attributes, "from")) {
      Layer source;
      resolve_inputs(values_, entry, false, source, outer);
      if (source.inputs.empty()) return;
      scope.input = scope.previous = source.inputs[0];
    }
    for (const auto& item : entry.attributes) {
      const std::string key = item.first.Scalar();
      if (key != "name" && key != "from") scope.values.emplace(key, item.second);
    }
    read_layers(blocks_.at(entry.word), scope);
    for (const auto& [key, value] : scope.values) {
      if (!scope.used_values.contains(key)) {
        values_.report(value, "block '" + entry.word + "' does not use '$" + key + "'");
      }
    }
    outer.previous = scope.previous;
    outer.names[scope.prefix.substr(0, scope.prefix.size() - 1)] = scope.previous;
  }

  std::string default_name(const std::string& word) {
    return word + std::to_string(++num_unnamed_[word]);
  }

  ModelValues values_;
  Model model_;
  int64_t num_values_ = 0;  // numbers in the layers' results so far
  std::map<std::string, YAML::Node> blocks_;
  std::set<std::string> layer_names_;
  std::map<std::string, int> num_unnamed_;
};

}  // namespace

Model parse_model(const std::string& text, const std::string& file) {
  return Parser(file).parse(text);
}

}  // namespace dlflow::runtime
