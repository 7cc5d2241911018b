#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/nn/model.h"

namespace dlflow::runtime {

/// The attributes of a kind of layer, besides `name` and `from`.
struct LayerSyntax {
  LayerKind kind;
  std::vector<std::string> required;
  std::vector<std::string> optional;
};

/// By the word that stands for the layer in YAML.
const std::map<std::string, LayerSyntax>& layer_syntax();

}  // namespace dlflow::runtime
