#include <array>

#include "runtime/nn/layer_shapes.h"
#include "runtime/nn/model_parts.h"

namespace dlflow::runtime {
namespace {

/// True for convolutions and linear layers.
bool has_weights(LayerKind kind) {
  return kind == LayerKind::Conv2d || kind == LayerKind::ConvTranspose2d ||
         kind == LayerKind::Linear;
}

void check_padding(ModelValues& values, const YAML::Node& attributes, const Layer& layer,
                   bool pool) {
  const auto is_too_wide = [&](int64_t kernel, int64_t dilation, int64_t padding) {
    return kernel > 0 && padding > dilation * (kernel - 1);
  };
  const auto is_more_than_half = [](int64_t kernel, int64_t padding) {
    return 2 * padding > kernel;
  };
  const Extent &kernel = layer.kernel, &padding = layer.padding;
  if (is_too_wide(kernel.height, layer.dilation.height, padding.height) ||
      is_too_wide(kernel.width, layer.dilation.width, padding.width)) {
    values.report(attribute(attributes, "padding"), "'padding' must be smaller than 'kernel'");
  } else if (pool && is_more_than_half(kernel.height, padding.height)) {
    values.report(attribute(attributes, "padding"), "'padding' must be at most half of 'kernel'");
  }
}

ConvolutionAlgorithm read_algorithm(ModelValues& values, const YAML::Node& given,
                                    const Layer& layer, ModelScope& scope) {
  const std::string word = values.text_of(given, "'algorithm'", &scope);
  if (word == "direct") return ConvolutionAlgorithm::Direct;
  if (word == "winograd") {
    if (has_winograd_form(layer)) return ConvolutionAlgorithm::Winograd;
    values.report(given,
                  "'algorithm: winograd' needs kernel 3, stride 1, dilation 1 and no groups");
  } else if (word != "auto") {
    values.report(given, "'algorithm' must be 'auto', 'direct' or 'winograd'");
  }
  return ConvolutionAlgorithm::Auto;
}

}  // namespace

std::string name(ConvolutionAlgorithm algorithm) {
  constexpr std::array kWords = {"auto", "direct", "winograd"};  // in the order of the enum
  return kWords.at(size_t(algorithm));
}

Init read_init(ModelValues& values, const YAML::Node& given, LayerKind kind, ModelScope* scope) {
  const std::string word = values.text_of(given, "'init'", scope);
  if (word == "pytorch") return Init::PyTorch;
  if (has_weights(kind)) {
    if (word == "he") return Init::He;
    if (word == "xavier") return Init::Xavier;
    values.report(given, "'init' must be 'pytorch', 'he' or 'xavier'");
  } else {
    if (word == "zero") return Init::Zero;
    values.report(given, "'init' of a normalisation must be 'pytorch' or 'zero'");
  }
  return Init::PyTorch;
}

void read_attributes(ModelValues& values, const YAML::Node& attributes, Init of_model, Layer& layer,
                     ModelScope& scope) {
  const auto number = [&](const char* key, int64_t at_least, int64_t otherwise) {
    const YAML::Node node = attribute(attributes, key);
    if (!node) return otherwise;
    return values.integer(node, "'" + std::string(key) + "'", at_least, kMaxUnits, &scope)
        .value_or(otherwise);
  };
  const bool pool = layer.kind == LayerKind::MaxPool || layer.kind == LayerKind::AvgPool;
  const auto sides = [&](const char* key, int64_t at_least, Extent otherwise) {
    const YAML::Node node = attribute(attributes, key);
    return node ? values.extent(node, "'" + std::string(key) + "'", at_least, pool, scope)
                : otherwise;
  };
  layer.units = number("channels", 1, number("features", 1, 0));
  layer.kernel = sides("kernel", 1, 0);
  layer.stride = sides("stride", 1, pool ? layer.kernel : 1);
  layer.padding = sides("padding", 0, 0);
  layer.dilation = sides("dilation", 1, 1);
  layer.groups = number("groups", 1, 1);
  layer.size = sides("size", 1, 0);
  layer.scale = number("scale", 1, 1);
  layer.rate = values.share(attributes, "rate", 0, scope);
  layer.slope =
      values.share(attributes, "slope", layer.kind == LayerKind::LeakyRelu ? 0.01 : 0, scope);
  layer.vocabulary = number("vocabulary", 2, 0);
  layer.heads = number("heads", 1, 0);
  layer.kv_heads = number("kv_heads", 1, layer.heads);
  layer.bias = values.boolean(attributes, "bias", true, scope);
  layer.causal = values.boolean(attributes, "causal", true, scope);
  layer.rotary = values.boolean(attributes, "rotary", false, scope);
  layer.init = has_weights(layer.kind) ? of_model : Init::PyTorch;
  if (const YAML::Node init = attribute(attributes, "init")) {
    layer.init = read_init(values, init, layer.kind, &scope);
  }
  if (const YAML::Node given = attribute(attributes, "algorithm")) {
    layer.algorithm = read_algorithm(values, given, layer, scope);
  }
  check_padding(values, attributes, layer, pool);
}

}  // namespace dlflow::runtime
