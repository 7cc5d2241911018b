#include "runtime/nn/layer_syntax.h"

#include <algorithm>

#include "base/text.h"

namespace dlflow::runtime {
namespace {

std::vector<std::string> words(const char* text) {
  return *text == '\0' ? std::vector<std::string>() : split(text, ' ');
}

LayerSyntax syntax_of(LayerKind kind, const char* required, const char* optional) {
  LayerSyntax syntax{kind, words(required), words(optional)};
  for (std::string& attribute : syntax.required) {
    if (attribute != "from+") continue;
    attribute = "from";
    syntax.reads_list = true;
  }
  return syntax;
}

}  // namespace

bool LayerSyntax::reads_two() const {
  return !reads_list && std::ranges::count(required, "from") > 0;
}

const std::map<std::string, LayerSyntax>& layer_syntax() {
  static const std::map<std::string, LayerSyntax> syntax = {
#define DLFLOW_LAYER(Kind, word, required, optional, relu, gpu) \
  {#word, syntax_of(LayerKind::Kind, required, optional)},
#include "runtime/nn/layers.def"
#undef DLFLOW_LAYER
  };
  return syntax;
}

}  // namespace dlflow::runtime
