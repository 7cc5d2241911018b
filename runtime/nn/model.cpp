#include "runtime/nn/model.h"

#include <span>

#include "base/text.h"

namespace dlflow::runtime {
namespace {

std::string to_lines(std::span<const ModelDiagnostic> diagnostics) {
  std::vector<std::string> lines;
  for (const ModelDiagnostic& d : diagnostics) {
    const std::string place =
        d.line == 0 ? "" : ":" + std::to_string(d.line) + ":" + std::to_string(d.column);
    lines.push_back(d.file + place + ": error: " + d.message);
  }
  return join(lines, "\n");
}

}  // namespace

ModelError::ModelError(std::vector<ModelDiagnostic> diagnostics)
    : Error(Errc::InvalidInput, to_lines(diagnostics)), diagnostics_(std::move(diagnostics)) {}

std::string to_string(const TensorShape& shape) {
  std::string text = "(B";
  for (const int64_t size : shape) text += "," + std::to_string(size);
  return text + ")";
}

std::string to_string(const Extent& extent) {
  const std::string height = std::to_string(extent.height), width = std::to_string(extent.width);
  return extent.height == extent.width ? height : "[" + height + ", " + width + "]";
}

std::string name(LayerKind kind) {
  switch (kind) {
#define DLFLOW_LAYER(Kind, word, required, optional, relu, gpu) \
  case LayerKind::Kind:                                         \
    return #word;
#include "runtime/nn/layers.def"
#undef DLFLOW_LAYER
  }
  return {};
}

}  // namespace dlflow::runtime
