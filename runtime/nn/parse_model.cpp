#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/text.h"
#include "runtime/nn/layer_shapes.h"
#include "runtime/nn/layer_syntax.h"
#include "runtime/nn/model.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr size_t kMaxLayers = 10'000;
constexpr int64_t kMaxUnits = 1 << 20;
constexpr int64_t kMaxValue = 1 << 28;             // numbers in one sample's value
constexpr int64_t kMaxValues = int64_t(1) << 30;   // numbers in all values of one sample
constexpr int64_t kMaxWeights = int64_t(1) << 31;  // numbers in one layer

constexpr std::pair<LossKind, const char*> kLosses[] = {
    {LossKind::SoftmaxCrossEntropy, "softmax_cross_entropy"},
    {LossKind::NextToken, "next_token"},
    {LossKind::Reconstruction, "reconstruction"},
    {LossKind::MeanSquaredError, "mse"},
    {LossKind::AbsoluteError, "l1"},
    {LossKind::Huber, "huber"},
    {LossKind::BinaryCrossEntropy, "bce"},
    {LossKind::Contrastive, "contrastive"},
    {LossKind::PixelCrossEntropy, "pixel_cross_entropy"},
    {LossKind::Dice, "dice"},
    {LossKind::PixelCrossEntropyAndDice, "pixel_cross_entropy_and_dice"}};

/// `- conv2d: {...}`, `- relu` or `- BLOCK: {...}`: a word and its attributes.
struct Entry {
  std::string word;
  YAML::Node at;          // where the word stands
  YAML::Node attributes;  // a map, or null
};

/// The layers of one use of a block, or of the network itself.
struct Scope {
  std::string prefix;                        // "layer1.0."
  std::map<std::string, YAML::Node> values;  // of the block's $parameters
  std::map<std::string, int> names;          // to the layer's index
  int input = kImages;                       // what `input` means here
  int previous = kImages;
  std::string use;  // " (block 'basic' used in line 40)"
  std::set<std::string> used_values;
};

/// More numbers than `limit`; no product overflows.
bool exceeds(const TensorShape& shape, int64_t limit) {
  int64_t count = 1;
  for (const int64_t n : shape) {
    if (n > limit / count) return true;
    count *= n;
  }
  return false;
}

int64_t num_numbers(const TensorShape& shape) {
  int64_t count = 1;
  for (const int64_t n : shape) count *= n;
  return count;
}

class Parser {
 public:
  explicit Parser(std::string file) : file_(std::move(file)) {}

  Model parse(const std::string& text) {
    if (text.size() > kMaxBytes) {
      report(0, 0, "the file is larger than 1 MiB, which no model needs");
    } else {
      read_file(text);
    }
    if (!diagnostics_.empty()) throw ModelError(std::move(diagnostics_));
    model_.text = text;
    return std::move(model_);
  }

 private:
  void read_file(const std::string& text) {
    YAML::Node root;
    try {
      root = YAML::Load(text);
    } catch (const YAML::ParserException& e) {
      return report(e.mark.line + 1, e.mark.column + 1, "not YAML: " + e.msg);
    }
    if (!root.IsMap()) return report(1, 1, "a model is a map with 'name', 'input' and 'layers'");
    check_keys(root, {"name", "input", "layers"},
               {"blocks", "loss", "ignored_token", "temperature", "init"}, "a model");
    read_head(root);
    if (root["blocks"]) read_blocks(root["blocks"]);
    if (root["layers"] && model_.input.size() > 0) {
      Scope scope;
      read_layers(root["layers"], scope);
      if (diagnostics_.empty()) check_ends(root["layers"]);
    }
  }

  void read_head(const YAML::Node& root) {
    if (const YAML::Node name = root["name"]) model_.name = text_of(name, "'name'");
    read_loss(root);
    if (const YAML::Node init = root["init"]) {
      model_.init = init_of(init, LayerKind::Linear, nullptr);
    }
    const YAML::Node input = root["input"];
    if (!input) return;
    if (!input.IsSequence() || (input.size() != 1 && input.size() != 3)) {
      return report(input, "'input' is [channels, height, width], or [features] or [tokens]");
    }
    TensorShape shape;
    for (const YAML::Node& size : input) {
      shape.push_back(integer(size, "'input'", 1, kMaxUnits, nullptr).value_or(0));
    }
    if (std::count(shape.begin(), shape.end(), 0) == 0) model_.input = shape;
  }

  void read_loss(const YAML::Node& root) {
    const YAML::Node loss = root["loss"], ignored = root["ignored_token"];
    const std::string word = loss ? text_of(loss, "'loss'") : "softmax_cross_entropy";
    const auto found = std::ranges::find(kLosses, word, &std::pair<LossKind, const char*>::second);
    if (found != std::end(kLosses)) {
      model_.loss = found->first;
    } else {
      std::vector<std::string> known;
      for (const auto& [kind, known_word] : kLosses) known.emplace_back(known_word);
      report(loss, "unknown loss '" + word + "'; there are " + join(known, ", ") +
                       did_you_mean(word, known));
    }
    if (const YAML::Node temperature = root["temperature"]) read_temperature(temperature);
    if (!ignored) return;
    model_.ignored_token = integer(ignored, "'ignored_token'", 0, kMaxUnits, nullptr);
    if (model_.loss != LossKind::NextToken) {
      report(ignored, "'ignored_token' goes with 'loss: next_token' alone");
    }
  }

  void read_temperature(const YAML::Node& node) {
    model_.temperature = number_in(node);
    if (!(model_.temperature > 0 && std::isfinite(model_.temperature))) {
      report(node, "'temperature' is a number above 0");
    }
    if (model_.loss != LossKind::Contrastive) {
      report(node, "'temperature' goes with 'loss: contrastive' alone");
    }
  }

  void read_blocks(const YAML::Node& blocks) {
    if (!blocks.IsMap()) return report(blocks, "'blocks' is a map: a name, then its layers");
    for (const auto& block : blocks) {
      const std::string name = text_of(block.first, "the name of a block");
      if (layer_syntax().contains(name)) {
        report(block.first, "'" + name + "' is a layer; choose another name for the block");
      } else if (!block.second.IsSequence() || block.second.size() == 0) {
        report(block.first, "block '" + name + "' needs a list of layers");
      } else if (!blocks_.emplace(name, block.second).second) {
        report(block.first, "block '" + name + "' is there twice");
      }
    }
  }

  void read_layers(const YAML::Node& list, Scope& scope) {
    if (!list.IsSequence() || list.size() == 0) {
      return report(list, "'layers' is a list with at least one layer");
    }
    for (const YAML::Node& node : list) {
      const std::optional<Entry> entry = read_entry(node, scope);
      if (!entry) continue;
      if (model_.layers.size() >= kMaxLayers) {
        report(entry->at, "more than 10,000 layers");
        return;
      }
      if (const auto syntax = layer_syntax().find(entry->word); syntax != layer_syntax().end()) {
        read_layer(*entry, syntax->second, scope);
      } else {
        read_block_use(*entry, scope);
      }
    }
  }

  std::optional<Entry> read_entry(const YAML::Node& node, const Scope& scope) {
    Entry entry;
    if (node.IsScalar()) {
      entry = {node.Scalar(), node, YAML::Node()};
    } else if (node.IsMap() && node.size() == 1) {
      const auto item = *node.begin();
      entry = {text_of(item.first, "a layer"), item.first, item.second};
    } else {
      report(node, "a layer is a word, or a word and its attributes: `conv2d: {channels: 8, ...}`");
      return {};
    }
    if (!entry.attributes.IsNull() && !entry.attributes.IsMap()) {
      report(entry.attributes, "the attributes of '" + entry.word + "' are a map: {key: value}");
      return {};
    }
    std::vector<std::string> known;
    for (const auto& [word, syntax] : layer_syntax()) known.push_back(word);
    if (scope.prefix.empty()) {
      for (const auto& [word, layers] : blocks_) known.push_back(word);
    }
    if (std::find(known.begin(), known.end(), entry.word) == known.end()) {
      report(entry.at,
             "unknown layer '" + entry.word + "'" + did_you_mean(entry.word, known) + scope.use);
      return {};
    }
    return entry;
  }

  void read_layer(const Entry& entry, const LayerSyntax& syntax, Scope& scope) {
    const size_t errors_before = diagnostics_.size();
    std::vector<std::string> optional = syntax.optional;
    optional.emplace_back("name");
    if (!syntax.reads_nothing) optional.emplace_back("from");
    check_keys(entry.attributes, syntax.required, optional, "'" + entry.word + "'", entry.at);

    Layer layer;
    layer.kind = syntax.kind;
    layer.line = entry.at.Mark().line + 1;
    layer.column = entry.at.Mark().column + 1;
    read_attributes(entry.attributes, layer, scope);
    const YAML::Node name = attribute(entry.attributes, "name");
    const std::string own_name = name ? text_of(name, "'name'", &scope) : default_name(entry.word);
    layer.name = scope.prefix + own_name;
    if (own_name == "input" || !layer_names_.insert(layer.name).second) {
      report(name ? name : entry.at, "the name '" + layer.name + "' is taken" + scope.use);
    }
    if (syntax.reads_nothing) {
      layer.inputs = {kImages};
    } else if (syntax.reads_list) {
      resolve_list(entry, layer, scope);
    } else {
      resolve_inputs(entry, syntax.reads_two(), layer, scope);
    }
    if (const YAML::Node tied = attribute(entry.attributes, "tied"))
      resolve_tied(tied, layer, scope);
    if (diagnostics_.size() == errors_before) check_shape(entry, layer, scope);
    scope.previous = int(model_.layers.size());
    scope.names[own_name] = scope.previous;
    model_.layers.push_back(std::move(layer));
  }

  void read_attributes(const YAML::Node& attributes, Layer& layer, Scope& scope) {
    const auto number = [&](const char* key, int64_t at_least, int64_t otherwise) {
      const YAML::Node node = attribute(attributes, key);
      if (!node) return otherwise;
      return integer(node, "'" + std::string(key) + "'", at_least, kMaxUnits, &scope)
          .value_or(otherwise);
    };
    const bool pool = layer.kind == LayerKind::MaxPool || layer.kind == LayerKind::AvgPool;
    const auto sides = [&](const char* key, int64_t at_least, Extent otherwise) {
      const YAML::Node node = attribute(attributes, key);
      return node ? extent(node, "'" + std::string(key) + "'", at_least, pool, scope) : otherwise;
    };
    layer.units = number("channels", 1, number("features", 1, 0));
    layer.kernel = sides("kernel", 1, 0);
    layer.stride = sides("stride", 1, pool ? layer.kernel : 1);
    layer.padding = sides("padding", 0, 0);
    layer.dilation = sides("dilation", 1, 1);
    layer.groups = number("groups", 1, 1);
    layer.size = sides("size", 1, 0);
    layer.scale = number("scale", 1, 1);
    layer.rate = share(attributes, "rate", 0, scope);
    layer.slope = share(attributes, "slope", layer.kind == LayerKind::LeakyRelu ? 0.01 : 0, scope);
    layer.vocabulary = number("vocabulary", 2, 0);
    layer.heads = number("heads", 1, 0);
    layer.kv_heads = number("kv_heads", 1, layer.heads);
    layer.bias = boolean(attributes, "bias", true, scope);
    layer.causal = boolean(attributes, "causal", true, scope);
    layer.rotary = boolean(attributes, "rotary", false, scope);
    layer.init = has_weights(layer.kind) ? model_.init : Init::PyTorch;
    if (const YAML::Node init = attribute(attributes, "init")) {
      layer.init = init_of(init, layer.kind, &scope);
    }
    check_padding(attributes, layer, pool);
  }

  /// Convolutions and linear layers.
  static bool has_weights(LayerKind kind) {
    return kind == LayerKind::Conv2d || kind == LayerKind::ConvTranspose2d ||
           kind == LayerKind::Linear;
  }

  Init init_of(const YAML::Node& given, LayerKind kind, Scope* scope) {
    const std::string word = text_of(given, "'init'", scope);
    if (word == "pytorch") return Init::PyTorch;
    if (has_weights(kind)) {
      if (word == "he") return Init::He;
      if (word == "xavier") return Init::Xavier;
      report(given, "'init' is 'pytorch', 'he' or 'xavier'");
    } else {
      if (word == "zero") return Init::Zero;
      report(given, "'init' of a normalisation is 'pytorch' or 'zero'");
    }
    return Init::PyTorch;
  }

  void check_padding(const YAML::Node& attributes, const Layer& layer, bool pool) {
    const auto is_too_wide = [&](int64_t kernel, int64_t dilation, int64_t padding) {
      return kernel > 0 && padding > dilation * (kernel - 1);
    };
    const auto is_more_than_half = [](int64_t kernel, int64_t padding) {
      return 2 * padding > kernel;
    };
    const Extent &kernel = layer.kernel, &padding = layer.padding;
    if (is_too_wide(kernel.height, layer.dilation.height, padding.height) ||
        is_too_wide(kernel.width, layer.dilation.width, padding.width)) {
      report(attribute(attributes, "padding"), "'padding' must be smaller than 'kernel'");
    } else if (pool && is_more_than_half(kernel.height, padding.height)) {
      report(attribute(attributes, "padding"), "'padding' must be at most half of 'kernel'");
    }
  }

  /// One number for both sides, or `[height, width]`.
  Extent extent(const YAML::Node& given, const std::string& what, int64_t at_least, bool square,
                Scope& scope) {
    const YAML::Node node = resolve(given, &scope);
    if (!node.IsDefined() || square || !node.IsSequence()) {
      return integer(given, what, at_least, kMaxUnits, &scope).value_or(at_least);
    }
    if (node.size() != 2) {
      report(given, what + " is a whole number or [height, width]");
      return at_least;
    }
    const auto side = [&](int i) {
      return integer(node[i], what, at_least, kMaxUnits, &scope).value_or(at_least);
    };
    return {side(0), side(1)};
  }

  /// A number from 0 to less than 1.
  double share(const YAML::Node& attributes, const char* key, double otherwise, Scope& scope) {
    const YAML::Node given = attribute(attributes, key);
    if (!given) return otherwise;
    const YAML::Node node = resolve(given, &scope);
    if (!node.IsDefined()) return otherwise;
    const double value = number_in(node);
    if (value >= 0 && value < 1) return value;
    report(node, "'" + std::string(key) + "' is a number from 0 to less than 1");
    return otherwise;
  }

  /// NaN if it is none.
  static double number_in(const YAML::Node& node) {
    double value = 0;
    const std::string text = node.IsScalar() ? node.Scalar() : "";
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? value : std::nan("");
  }

  /// `from:` or the layer before, or `both`.
  void resolve_inputs(const Entry& entry, bool both, Layer& layer, Scope& scope) {
    const YAML::Node from = attribute(entry.attributes, "from");
    if (!from || both) layer.inputs.push_back(scope.previous);
    if (from) resolve_input(from, layer, scope);
  }

  /// The layers that `from` lists.
  void resolve_list(const Entry& entry, Layer& layer, Scope& scope) {
    const YAML::Node from = attribute(entry.attributes, "from");
    if (!from) return;  // reported as missing
    if (!from.IsSequence() || from.size() < 2) {
      return report(from, "'from' of '" + entry.word + "' is a list of two or more layers");
    }
    for (const YAML::Node& name : from) resolve_input(name, layer, scope);
  }

  void resolve_input(const YAML::Node& from, Layer& layer, Scope& scope) {
    const std::string word = text_of(from, "'from'", &scope);
    if (word == "input") {
      layer.inputs.push_back(scope.input);
    } else if (const auto found = scope.names.find(word); found != scope.names.end()) {
      layer.inputs.push_back(found->second);
    } else {
      std::vector<std::string> known = {"input"};
      for (const auto& [name, index] : scope.names) known.push_back(name);
      report(from,
             "no layer '" + word + "' before this one" + did_you_mean(word, known) + scope.use);
    }
  }

  /// `tied`: the embedding whose weight a linear layer uses.
  void resolve_tied(const YAML::Node& node, Layer& layer, Scope& scope) {
    const std::string word = text_of(node, "'tied'", &scope);
    const auto found = scope.names.find(word);
    const Layer* embedding =
        found == scope.names.end() ? nullptr : &model_.layers[size_t(found->second)];
    if (embedding == nullptr || embedding->kind != LayerKind::Embedding) {
      return report(node, "'tied' names an embedding before this layer; '" + word + "' is none");
    }
    if (embedding->vocabulary != layer.units || embedding->units != features_read(layer)) {
      return report(node, fmt::format("the weight of '{}' is ({}, {}); a layer that is tied to it "
                                      "has as many features and reads as many",
                                      word, embedding->vocabulary, embedding->units));
    }
    const auto other = std::ranges::find(model_.layers, found->second, &Layer::tied);
    if (other != model_.layers.end()) {
      return report(node, fmt::format("'{}' is tied to '{}' already; one layer alone may be",
                                      other->name, embedding->name) +
                              scope.use);
    }
    layer.tied = found->second;
  }

  /// The last size of the first value that it reads; 0 if there is none.
  int64_t features_read(const Layer& layer) const {
    if (layer.inputs.empty()) return 0;
    const TensorShape& shape = model_.shape_of(layer.inputs[0]);
    return shape.empty() ? 0 : shape.back();
  }

  void check_shape(const Entry& entry, Layer& layer, const Scope& scope) {
    std::vector<TensorShape> shapes;
    std::vector<std::string> names;
    for (const int index : layer.inputs) {
      shapes.push_back(model_.shape_of(index));
      if (shapes.back().empty()) return;  // reported where it went wrong
      names.push_back(index == kImages ? "input" : model_.layers[size_t(index)].name);
    }
    if (layer.kind == LayerKind::Embedding && !is_input(layer.inputs[0])) {
      return report(entry.at,
                    "embedding reads 'input' alone, the numbers of tokens, or a second input; here "
                    "it reads '" +
                        names[0] + "'" + scope.use);
    }
    if (layer.kind == LayerKind::SecondInput && model_.second_input() > 0) {
      return report(entry.at, "a sample has no third input: there is a second_input already");
    }
    const std::string problem = infer_shape(layer, {shapes, names});
    if (!problem.empty()) return report(entry.at, problem + scope.use);
    bool too_large = exceeds(layer.shape, kMaxValue);
    for (const LayerTensor& tensor : tensors_of(layer, shapes.at(0))) {
      too_large = too_large || exceeds(tensor.shape, kMaxWeights);
    }
    if (!too_large) values_ += num_numbers(layer.shape);
    if (too_large || values_ > kMaxValues) {
      layer.shape.clear();
      report(entry.at, "the layer is too large: its result is " + to_string(shapes[0]) + scope.use);
    }
  }

  bool is_input(int index) const {
    return index == kImages || model_.layers[size_t(index)].kind == LayerKind::SecondInput;
  }

  void read_block_use(const Entry& entry, Scope& outer) {
    Scope scope;
    const YAML::Node name = attribute(entry.attributes, "name");
    if (!name)
      return report(entry.at, "a block needs a 'name', which its layers' names begin with");
    scope.prefix = text_of(name, "'name'") + ".";
    scope.use = " (block '" + entry.word + "' used in line " +
                std::to_string(entry.at.Mark().line + 1) + ")";
    scope.input = scope.previous = outer.previous;
    if (const YAML::Node from = attribute(entry.attributes, "from")) {
      Layer source;
      resolve_inputs(entry, false, source, outer);
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
        report(value, "block '" + entry.word + "' does not use '$" + key + "'");
      }
    }
    outer.previous = scope.previous;
    outer.names[scope.prefix.substr(0, scope.prefix.size() - 1)] = scope.previous;
  }

  void check_ends(const YAML::Node& layers) {
    std::vector<bool> used(model_.layers.size());
    for (const Layer& layer : model_.layers) {
      for (const int index : layer.inputs) {
        if (index != kImages) used[size_t(index)] = true;
      }
    }
    used.back() = true;
    for (size_t i = 0; i < used.size(); ++i) {
      const Layer& layer = model_.layers[i];
      if (!used[i]) report(layer.line, layer.column, "nothing reads '" + layer.name + "'");
    }
    const Layer& last = model_.layers.back();
    check_scores(last);
    const bool learns = std::any_of(
        model_.layers.begin(), model_.layers.end(),
        [&](const Layer& l) { return !tensors_of(l, model_.shape_of(l.inputs[0])).empty(); });
    if (!learns) report(layers, "no layer has weights: there is nothing to train");
  }

  /// The second input is what a sample has instead of targets.
  void check_pairs(const Layer& last) {
    if ((model_.second_input() > 0) != compares_samples(model_.loss)) {
      return report(last.line, last.column,
                    "'second_input' and 'loss: contrastive' go together; there is one alone");
    }
    if (!compares_samples(model_.loss)) return;
    if (last.shape.size() == 1 && last.shape[0] % 2 == 0) return;
    report(last.line, last.column,
           "with 'loss: contrastive' the last layer gives the embeddings of both inputs, one after "
           "the other and of one size: concat of two (B,F); '" +
               last.name + "' gives " + to_string(last.shape));
  }

  void check_scores(const Layer& last) {
    check_pairs(last);
    if (compares_samples(model_.loss)) return;
    if (model_.loss == LossKind::Reconstruction) {
      if (last.shape == model_.input && !model_.takes_tokens()) return;
      return report(last.line, last.column,
                    "with 'loss: reconstruction' the last layer gives what the network is given, " +
                        to_string(model_.input) + "; '" + last.name + "' gives " +
                        to_string(last.shape));
    }
    if (has_targets(model_.loss)) {
      if (last.shape.size() == 1) return;
      return report(last.line, last.column,
                    "with 'loss: " + name(model_.loss) +
                        "' the last layer gives one number per target, (B,F); '" + last.name +
                        "' gives " + to_string(last.shape));
    }
    if (has_masks(model_.loss)) return check_pixel_scores(last);
    const bool tokens = model_.loss == LossKind::NextToken;
    const bool fits = tokens ? last.shape.size() == 2 && model_.input == TensorShape{last.shape[0]}
                             : last.shape.size() == 1;
    if (!fits || last.shape.back() < 2) {
      return report(
          last.line, last.column,
          std::string("the last layer must give one score per ") +
              (tokens ? "token and position, (B,T,F), where the input is (B,T)," : "class, (B,F)") +
              " with F of at least 2; '" + last.name + "' gives " + to_string(last.shape));
    }
    if (tokens && (!model_.takes_tokens() || model_.input[0] < 2)) {
      report(last.line, last.column,
             "'loss: next_token' wants a network that begins with an embedding of its input, of "
             "two tokens or more");
    }
  }

  void check_pixel_scores(const Layer& last) {
    const TensorShape &scores = last.shape, &input = model_.input;
    const bool fits =
        scores.size() == 3 && input.size() == 3 && scores[1] == input[1] && scores[2] == input[2];
    if (fits && scores[0] >= 2 && scores[0] <= int64_t(kIgnoredClass)) return;
    report(last.line, last.column,
           "with 'loss: " + name(model_.loss) +
               "' the last layer gives one score per class and pixel of the input, "
               "(B,classes,H,W), of 2 to " +
               std::to_string(kIgnoredClass) + " classes; '" + last.name + "' gives " +
               to_string(last.shape) + " for " + to_string(input));
  }

  std::string default_name(const std::string& word) {
    return word + std::to_string(++num_unnamed_[word]);
  }

  static YAML::Node attribute(const YAML::Node& attributes, const std::string& key) {
    return attributes.IsMap() ? attributes[key] : YAML::Node(YAML::NodeType::Undefined);
  }

  void check_keys(const YAML::Node& map, const std::vector<std::string>& required,
                  const std::vector<std::string>& optional, const std::string& what,
                  const YAML::Node& at = {}) {
    std::set<std::string> seen;
    std::vector<std::string> known = required;
    known.insert(known.end(), optional.begin(), optional.end());
    if (map.IsMap()) {
      for (const auto& item : map) {
        const std::string key = text_of(item.first, "a key");
        if (std::find(known.begin(), known.end(), key) == known.end()) {
          report(item.first,
                 fmt::format("unknown key '{}' in {}{}", key, what, did_you_mean(key, known)));
        } else if (!seen.insert(key).second) {
          report(item.first, "'" + key + "' is there twice");
        }
      }
    }
    for (const std::string& key : required) {
      if (!seen.contains(key)) {
        report(at.IsNull() ? map : at, fmt::format("{} needs '{}'", what, key));
      }
    }
  }

  /// What `node` says, with `$name` replaced by what the block's use gives.
  YAML::Node resolve(const YAML::Node& node, Scope* scope) {
    if (scope == nullptr || !node.IsScalar() || !node.Scalar().starts_with("$")) return node;
    const std::string key = node.Scalar().substr(1);
    const auto found = scope->values.find(key);
    if (found == scope->values.end()) {
      report(node, "'$" + key + "' is not given" + scope->use);
      return YAML::Node(YAML::NodeType::Undefined);
    }
    scope->used_values.insert(key);
    return found->second;
  }

  std::optional<int64_t> integer(const YAML::Node& given, const std::string& what, int64_t at_least,
                                 int64_t at_most, Scope* scope) {
    const YAML::Node node = resolve(given, scope);
    if (!node.IsDefined()) return {};
    int64_t value = 0;
    const std::string text = node.IsScalar() ? node.Scalar() : "";
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < at_least ||
        value > at_most) {
      report(node, what + " is a whole number from " + std::to_string(at_least) + " to " +
                       std::to_string(at_most));
      return {};
    }
    return value;
  }

  bool boolean(const YAML::Node& attributes, const char* key, bool otherwise, Scope& scope) {
    const YAML::Node given = attribute(attributes, key);
    if (!given) return otherwise;
    const YAML::Node node = resolve(given, &scope);
    if (!node.IsDefined()) return otherwise;
    if (node.IsScalar() && (node.Scalar() == "true" || node.Scalar() == "false")) {
      return node.Scalar() == "true";
    }
    report(node, "'" + std::string(key) + "' is true or false");
    return otherwise;
  }

  std::string text_of(const YAML::Node& given, const std::string& what, Scope* scope = nullptr) {
    const YAML::Node node = resolve(given, scope);
    if (node.IsDefined() && node.IsScalar() && !node.Scalar().empty()) return node.Scalar();
    if (node.IsDefined()) report(node, what + " is a word");
    return {};
  }

  void report(const YAML::Node& node, const std::string& message) {
    report(node.Mark().line + 1, node.Mark().column + 1, message);
  }
  void report(int line, int column, const std::string& message) {
    diagnostics_.push_back({file_, line, column, message});
  }

  std::string file_;
  Model model_;
  int64_t values_ = 0;  // numbers in the results of the layers so far
  std::map<std::string, YAML::Node> blocks_;
  std::set<std::string> layer_names_;
  std::map<std::string, int> num_unnamed_;
  std::vector<ModelDiagnostic> diagnostics_;
};

}  // namespace

std::string name(LossKind loss) {
  return std::ranges::find(kLosses, loss, &std::pair<LossKind, const char*>::first)->second;
}

Model parse_model(const std::string& text, const std::string& file) {
  return Parser(file).parse(text);
}

}  // namespace dlflow::runtime
