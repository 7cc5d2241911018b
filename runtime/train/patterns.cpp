#include "runtime/train/patterns.h"

#include <fnmatch.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "runtime/nn/layer_shapes.h"

namespace dlflow::runtime {
namespace {

std::vector<LayerTensor> tensors_of(const Model& model, const Layer& layer) {
  return runtime::tensors_of(layer, model.shape_of(layer.inputs[0]));
}

/// The parameters that are trained.
std::vector<std::string> trained_names(const Model& model) {
  std::vector<std::string> names;
  for (const Layer& layer : model.layers) {
    if (layer.frozen) continue;
    for (const LayerTensor& tensor : tensors_of(model, layer)) {
      if (tensor.trainable) names.push_back(layer.name + "." + tensor.name);
    }
  }
  return names;
}

}  // namespace

bool matches_pattern(const std::string& name, const std::string& pattern) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

void freeze_layers(Model& model, std::span<const std::string> patterns) {
  std::vector<std::string> names;
  for (const Layer& layer : model.layers) {
    if (!tensors_of(model, layer).empty()) names.push_back(layer.name);
  }
  for (const std::string& pattern : patterns) {
    bool fits = false;
    for (Layer& layer : model.layers) {
      if (std::ranges::find(names, layer.name) == names.end()) continue;
      if (!matches_pattern(layer.name, pattern)) continue;
      layer.frozen = fits = true;
    }
    if (fits) continue;
    throw Error(Errc::InvalidInput, "with: 'freeze' has '" + pattern +
                                        "', which fits no layer with weights of model '" +
                                        model.name + "': " + join(names, ", "));
  }
  if (trained_names(model).empty()) {
    throw Error(Errc::InvalidInput, "with: 'freeze' leaves model '" + model.name +
                                        "' no layer to train; leave out one of the patterns");
  }
}

void require_groups_fit(const Model& model, std::span<const ParameterGroup> groups) {
  const std::vector<std::string> names = trained_names(model);
  for (size_t i = 0; i < groups.size(); ++i) {
    const bool fits = std::ranges::any_of(
        names, [&](const std::string& name) { return group_of(groups, name) == &groups[i]; });
    if (fits) continue;
    throw Error(Errc::InvalidInput,
                "with: 'groups[" + std::to_string(i) + "].match' is '" + groups[i].match +
                    "', which fits no parameter that is trained and in no group before: " +
                    join(names, ", "));
  }
}

}  // namespace dlflow::runtime
