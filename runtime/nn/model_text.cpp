#include "runtime/nn/model_text.h"

#include <array>
#include <cstdio>
#include <functional>
#include <map>

#include "runtime/nn/layer_syntax.h"

namespace dlflow::runtime {
namespace {

std::string text_of(int64_t number) { return std::to_string(number); }
std::string text_of(bool value) { return value ? "true" : "false"; }

std::string text_of(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", number);
  return text;
}

std::string text_of(const Extent& extent) { return to_string(extent); }

std::string text_of(Init init) {
  constexpr std::array kWords = {"pytorch", "he", "xavier", "zero"};  // in the order of Init
  return kWords.at(size_t(init));
}

std::string text_of(ConvolutionAlgorithm algorithm) { return name(algorithm); }

std::string text_of(const TensorShape& shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "[" : ", ") + text_of(size);
  return text + "]";
}

std::string name_of(const Model& model, int value) {
  return value == kImages ? "input" : model.layers[size_t(value)].name;
}

/// Returns the text of an attribute; empty if it has its default value.
using Writer = std::function<std::string(const Model&, const Layer&)>;

template <typename T>
Writer written(T Layer::*member) {
  return [member](const Model&, const Layer& layer) { return text_of(layer.*member); };
}

template <typename T>
Writer unless(T Layer::*member, T usual) {
  return [member, usual](const Model&, const Layer& layer) {
    return layer.*member == usual ? "" : text_of(layer.*member);
  };
}

bool is_pool(const Layer& layer) {
  return layer.kind == LayerKind::MaxPool || layer.kind == LayerKind::AvgPool;
}

std::string stride_of(const Model&, const Layer& layer) {
  const Extent usual = is_pool(layer) ? layer.kernel : Extent(1);
  return layer.stride == usual ? "" : text_of(layer.stride);
}

std::string groups_of(const Model&, const Layer& layer) {
  const bool is_required = layer.kind == LayerKind::GroupNorm;
  return layer.groups == 1 && !is_required ? "" : text_of(layer.groups);
}

std::string kv_heads_of(const Model&, const Layer& layer) {
  return layer.kv_heads == layer.heads ? "" : text_of(layer.kv_heads);
}

std::string tied_of(const Model& model, const Layer& layer) {
  return layer.tied == kImages ? "" : name_of(model, layer.tied);
}

bool is_normalization(LayerKind kind) {
  return kind == LayerKind::BatchNorm || kind == LayerKind::GroupNorm;
}

std::string init_of(const Model& model, const Layer& layer) {
  const Init usual = is_normalization(layer.kind) ? Init::PyTorch : model.init;
  return layer.init == usual ? "" : text_of(layer.init);
}

/// Keyed by the attribute names of layers.def.
const std::map<std::string, Writer>& writers() {
  static const std::map<std::string, Writer> all = {
      {"channels", written(&Layer::units)},
      {"features", written(&Layer::units)},
      {"kernel", written(&Layer::kernel)},
      {"size", written(&Layer::size)},
      {"scale", written(&Layer::scale)},
      {"rate", written(&Layer::rate)},
      {"slope", written(&Layer::slope)},
      {"vocabulary", written(&Layer::vocabulary)},
      {"heads", written(&Layer::heads)},
      {"stride", stride_of},
      {"padding", unless(&Layer::padding, Extent(0))},
      {"dilation", unless(&Layer::dilation, Extent(1))},
      {"groups", groups_of},
      {"bias", unless(&Layer::bias, true)},
      {"causal", unless(&Layer::causal, true)},
      {"rotary", unless(&Layer::rotary, false)},
      {"kv_heads", kv_heads_of},
      {"tied", tied_of},
      {"init", init_of},
      {"algorithm", unless(&Layer::algorithm, ConvolutionAlgorithm::Auto)}};
  return all;
}

/// ", from: input", unless the layer reads only the layer before it.
std::string from_of(const Model& model, const Layer& layer, const LayerSyntax& syntax, int before) {
  if (syntax.reads_list) {
    std::string list;
    for (const int input : layer.inputs) list += (list.empty() ? "" : ", ") + name_of(model, input);
    return ", from: [" + list + "]";
  }
  if (syntax.reads_two()) return ", from: " + name_of(model, layer.inputs[1]);
  return layer.inputs[0] == before ? "" : ", from: " + name_of(model, layer.inputs[0]);
}

std::string line_of(const Model& model, size_t index) {
  const Layer& layer = model.layers[index];
  const std::string word = name(layer.kind);
  const LayerSyntax& syntax = layer_syntax().at(word);
  std::string line = "  - " + word + ": {name: " + layer.name;
  for (const auto* keys : {&syntax.required, &syntax.optional}) {
    for (const std::string& key : *keys) {
      if (key == "from") continue;
      const std::string text = writers().at(key)(model, layer);
      if (!text.empty()) line += ", " + key + ": " + text;
    }
  }
  return line + from_of(model, layer, syntax, int(index) - 1) + "}\n";
}

}  // namespace

std::string to_yaml(const Model& model) {
  std::string text = "name: " + model.name + "\ninput: " + text_of(model.input) + "\n";
  if (model.init != Init::PyTorch) text += "init: " + text_of(model.init) + "\n";
  text += "layers:\n";
  for (size_t i = 0; i < model.layers.size(); ++i) text += line_of(model, i);
  text += "loss: " + name(model.loss) + "\n";
  if (model.ignored_token) text += "ignored_token: " + text_of(*model.ignored_token) + "\n";
  return text;
}

}  // namespace dlflow::runtime
