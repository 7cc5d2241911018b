#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/nn/layer_syntax.h"

/// A network for each name in layer_syntax(), so that tests also cover a new layer.
namespace dlflow::test {

struct LayerCase {
  std::string word;
  std::string input;  ///< the input of a network that ends with three scores
  std::string layers;
};

/// "- max_pool: {name: tested, kernel: 2}\n"; with `every` attribute, or only the required ones.
inline std::string line_of(const std::string& word, const runtime::LayerSyntax& syntax,
                           bool every) {
  static const std::map<std::string, std::string> values = {
      {"channels", "3"},  {"kernel", "2"},     {"features", "5"},  {"from", "first"},
      {"stride", "1"},    {"padding", "1"},    {"bias", "false"},  {"dilation", "2"},
      {"groups", "3"},    {"rate", "0.3"},     {"slope", "0.2"},   {"size", "[4, 3]"},
      {"scale", "2"},     {"vocabulary", "5"}, {"heads", "2"},     {"kv_heads", "1"},
      {"causal", "true"}, {"rotary", "true"},  {"tied", "tokens"}, {"algorithm", "direct"}};
  std::string line = "- " + word + ": {name: tested";
  const auto add = [&](const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      if (key == "init") {
        line += word.ends_with("norm") ? ", init: zero" : ", init: he";
        continue;
      }
      const auto value = values.find(key);
      if (value == values.end()) throw std::runtime_error("every_layer.h has no value for " + key);
      const bool list = key == "from" && syntax.reads_list;
      line += ", " + key + ": " + (list ? "[second, first]" : value->second);
    }
  };
  add(syntax.required);
  if (every) add(syntax.optional);
  return line + "}\n";
}

/// A case with weights before the layer, so that its input gradient is checked. (A bias before
/// batch normalisation has none.)
inline LayerCase case_of(const std::string& word, const std::string& line) {
  const std::string maps =
      "- conv2d: {name: first, channels: 3, kernel: 3, padding: 1}\n"
      "- conv2d: {name: second, channels: 3, kernel: 3, padding: 1, bias: false}\n";
  const std::string tokens = "- embedding: {name: tokens, vocabulary: 5, features: 24}\n";
  const std::string after = "- flatten\n- linear: {name: last, features: 3}\n";
  if (word == "embedding") return {word, "[6]", line + after};
  const std::vector<LayerCase> kinds = {{word, "[2, 6, 6]", maps + line + after},
                                        {word, "[2, 6, 6]", maps + "- flatten\n" + line + after},
                                        {word, "[6]", tokens + line + after}};
  for (const LayerCase& layer : kinds) {
    try {
      runtime::parse_model("name: m\ninput: " + layer.input + "\nlayers:\n" + layer.layers,
                           "m.yaml");
      return layer;
    } catch (const runtime::ModelError&) {  // the attribute takes another kind of value
    }
  }
  throw std::runtime_error("every_layer.h has no network for: " + line);
}

inline std::vector<LayerCase> every_layer() {
  std::vector<LayerCase> cases;
  for (const auto& [word, syntax] : runtime::layer_syntax()) {
    for (const bool every : {false, true}) {
      if (every && syntax.optional.empty()) continue;
      cases.push_back(case_of(word, line_of(word, syntax, every)));
    }
  }
  return cases;
}

}  // namespace dlflow::test
