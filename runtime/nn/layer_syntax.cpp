#include "runtime/nn/layer_syntax.h"

#include <algorithm>

#include "base/text.h"

namespace dlflow::runtime {
namespace {

std::vector<std::string> words(const char* text) {
  return *text == '\0' ? std::vector<std::string>() : split(text, ' ');
}

}  // namespace

bool LayerSyntax::reads_two() const { return std::ranges::count(required, "from") > 0; }

const std::map<std::string, LayerSyntax>& layer_syntax() {
  static const std::map<std::string, LayerSyntax> syntax = {
#define DLFLOW_LAYER(Kind, word, required, optional, relu, gpu) \
  {#word, {LayerKind::Kind, words(required), words(optional)}},
#include "runtime/nn/layers.def"
#undef DLFLOW_LAYER
  };
  return syntax;
}

}  // namespace dlflow::runtime
