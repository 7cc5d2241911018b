#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "runtime/nn/model_parts.h"

namespace dlflow::runtime {
namespace {

void resolve_input(ModelValues& values, const YAML::Node& from, Layer& layer, ModelScope& scope) {
  const std::string word = values.text_of(from, "'from'", &scope);
  if (word == "input") {
    layer.inputs.push_back(scope.input);
  } else if (const auto found = scope.names.find(word); found != scope.names.end()) {
    layer.inputs.push_back(found->second);
  } else {
    std::vector<std::string> known = {"input"};
    for (const auto& [name, index] : scope.names) known.push_back(name);
    values.report(
        from, "no layer '" + word + "' before this one" + did_you_mean(word, known) + scope.use);
  }
}

/// The last dimension of the layer's first input, or 0 without one.
int64_t features_read(const Model& model, const Layer& layer) {
  if (layer.inputs.empty()) return 0;
  const TensorShape& shape = model.shape_of(layer.inputs[0]);
  return shape.empty() ? 0 : shape.back();
}

}  // namespace

void resolve_inputs(ModelValues& values, const ModelEntry& entry, bool both, Layer& layer,
                    ModelScope& scope) {
  const YAML::Node from = attribute(entry.attributes, "from");
  if (!from || both) layer.inputs.push_back(scope.previous);
  if (from) resolve_input(values, from, layer, scope);
}

void resolve_list(ModelValues& values, const ModelEntry& entry, Layer& layer, ModelScope& scope) {
  const YAML::Node from = attribute(entry.attributes, "from");
  if (!from) return;  // reported as missing
  if (!from.IsSequence() || from.size() < 2) {
    return values.report(from, "'from' of '" + entry.word + "' is a list of two or more layers");
  }
  for (const YAML::Node& name : from) resolve_input(values, name, layer, scope);
}

void resolve_tied(ModelValues& values, const Model& model, const YAML::Node& node, Layer& layer,
                  ModelScope& scope) {
  const std::string word = values.text_of(node, "'tied'", &scope);
  const auto found = scope.names.find(word);
  const Layer* embedding =
      found == scope.names.end() ? nullptr : &model.layers[size_t(found->second)];
  if (embedding == nullptr || embedding->kind != LayerKind::Embedding) {
    return values.report(
        node, "'tied' must name an embedding before this layer; '" + word + "' is not one");
  }
  if (embedding->vocabulary != layer.units || embedding->units != features_read(model, layer)) {
    return values.report(node, fmt::format("the weight of '{0}' is ({1}, {2}); a layer tied to it "
                                           "must have {1} features and read {2}",
                                           word, embedding->vocabulary, embedding->units));
  }
  const auto other = std::ranges::find(model.layers, found->second, &Layer::tied);
  if (other != model.layers.end()) {
    return values.report(node, fmt::format("'{}' is tied to '{}' already; only one layer may be",
                                           other->name, embedding->name) +
                                   scope.use);
  }
  layer.tied = found->second;
}

}  // namespace dlflow::runtime
