#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/nn/layer_syntax.h"

/// A network for each word of layer_syntax(), so that a new layer is compared, too.
namespace dlflow::test {

struct LayerCase {
  std::string word;
  std::string layers;  ///< of a network that takes [2, 6, 6] and ends with three scores
};

/// "- max_pool: {name: tested, kernel: 2}\n"; `every` attribute, or those that it must have.
inline std::string line_of(const std::string& word, const runtime::LayerSyntax& syntax,
                           bool every) {
  static const std::map<std::string, std::string> values = {
      {"channels", "3"}, {"kernel", "2"},  {"features", "5"}, {"from", "first"},
      {"stride", "1"},   {"padding", "1"}, {"bias", "false"}};
  std::string line = "- " + word + ": {name: tested";
  const auto add = [&](const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      const auto value = values.find(key);
      if (value == values.end()) throw std::runtime_error("every_layer.h has no value for " + key);
      line += ", " + key + ": " + value->second;
    }
  };
  add(syntax.required);
  if (every) add(syntax.optional);
  return line + "}\n";
}

/// Behind two convolutions, so that the gradients of what the layer reads count. (A bias before
/// batch normalisation has none.)
inline std::vector<LayerCase> every_layer() {
  const std::string before =
      "- conv2d: {name: first, channels: 3, kernel: 3, padding: 1}\n"
      "- conv2d: {name: second, channels: 3, kernel: 3, padding: 1, bias: false}\n";
  const std::string after = "- flatten\n- linear: {name: last, features: 3}\n";
  std::vector<LayerCase> cases;
  for (const auto& [word, syntax] : runtime::layer_syntax()) {
    for (const bool every : {false, true}) {
      if (every && syntax.optional.empty()) continue;
      const std::string line = line_of(word, syntax, every);
      LayerCase of_maps{word, before + line + after};
      try {
        runtime::parse_model("name: m\ninput: [2, 6, 6]\nlayers:\n" + of_maps.layers, "m.yaml");
        cases.push_back(of_maps);
      } catch (const runtime::ModelError&) {  // it takes rows
        cases.push_back({word, before + "- flatten\n" + line + after});
      }
    }
  }
  return cases;
}

}  // namespace dlflow::test
