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

  /// Whether the layer reads the layer before it and the one that `from` names.
  bool reads_two() const;

  /// Whether the layer reads the layers that `from` lists.
  bool reads_list = false;
};

/// The syntax of each kind of layer, keyed by its word in YAML.
const std::map<std::string, LayerSyntax>& layer_syntax();

}  // namespace dlflow::runtime
