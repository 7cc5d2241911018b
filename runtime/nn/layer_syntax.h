#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/nn/model.h"

namespace dlflow::runtime {

/// The attributes of a kind of layer, besides `name` and `from`: a row of layers.def.
struct LayerSyntax {
  LayerKind kind;
  std::vector<std::string> required;
  std::vector<std::string> optional;

  /// It reads the layer before it, and the one that `from` names.
  bool reads_two() const;

  /// It reads the layers that `from` lists.
  bool reads_list = false;
};

/// By the word that stands for the layer in YAML.
const std::map<std::string, LayerSyntax>& layer_syntax();

}  // namespace dlflow::runtime
