#include "runtime/nn/patterns.h"

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

/// The names of all trained parameters.
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

/// "conv2" and "conv" for "conv2.weight".
std::vector<std::string> beginnings(std::span<const std::string> names) {
  std::vector<std::string> beginnings;
  for (const std::string& name : names) {
    beginnings.push_back(name.substr(0, name.find('.')));
    beginnings.push_back(name.substr(0, name.find_first_of(".0123456789")));
  }
  return beginnings;
}

/// "; did you mean 'conv*'?" for "cnv*": compares its beginning with those of names.
std::string advice_on(const std::string& pattern, std::span<const std::string> names) {
  const size_t tail = pattern.find_first_of(".*?[");
  if (tail == std::string::npos) return did_you_mean(pattern, names);
  const std::string near = nearest(pattern.substr(0, tail), beginnings(names));
  const std::string meant = near + pattern.substr(tail);
  const bool fits = std::ranges::any_of(
      names, [&meant](const std::string& name) { return matches_pattern(name, meant); });
  return near.empty() || !fits ? "" : "; did you mean '" + meant + "'?";
}

/// "conv, bn, fc", cut to a readable number.
std::string some_of(std::span<const std::string> names) {
  constexpr size_t kShown = 12;
  if (names.size() <= kShown) return join(names, ", ");
  return join(names.first(kShown), ", ") + " and " + std::to_string(names.size() - kShown) +
         " more";
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
                                        "', which matches no layer with weights of model '" +
                                        model.name + "': " + some_of(names) +
                                        advice_on(pattern, names));
  }
  if (trained_names(model).empty()) {
    throw Error(Errc::InvalidInput, "with: 'freeze' leaves model '" + model.name +
                                        "' no layer to train; leave out one of the patterns");
  }
}

void require_groups_fit(const Model& model, std::span<const std::string> patterns) {
  const std::vector<std::string> names = trained_names(model);
  std::vector<std::string> left = names;
  for (size_t i = 0; i < patterns.size(); ++i) {
    const auto fits = [&](const std::string& name) { return matches_pattern(name, patterns[i]); };
    if (std::erase_if(left, fits) > 0) continue;
    throw Error(Errc::InvalidInput,
                "with: 'groups[" + std::to_string(i) + "].match' is '" + patterns[i] +
                    "', which matches no trained parameter outside earlier groups: " +
                    some_of(names) + advice_on(patterns[i], left));
  }
}

}  // namespace dlflow::runtime
