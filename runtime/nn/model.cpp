#include "runtime/nn/model.h"

#include "base/error.h"
#include "base/text.h"
#include "runtime/nn/layer_syntax.h"

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

bool is_map(const TensorShape& shape) { return shape.size() == 3; }

/// The number of places a window of `kernel` takes along `size`, or 0 if it does not fit.
int64_t num_windows(const Layer& layer, int64_t size) {
  const int64_t free = size + 2 * layer.padding - layer.kernel;
  return free < 0 ? 0 : free / layer.stride + 1;
}

std::string infer_window(Layer& layer, const TensorShape& in, int64_t channels) {
  const int64_t height = num_windows(layer, in[1]);
  const int64_t width = num_windows(layer, in[2]);
  if (height == 0 || width == 0) {
    return name(layer.kind) + " with kernel " + std::to_string(layer.kernel) + " and padding " +
           std::to_string(layer.padding) + " does not fit into " + to_string(in);
  }
  layer.shape = {channels, height, width};
  return {};
}

}  // namespace

ModelError::ModelError(std::vector<ModelDiagnostic> diagnostics)
    : Error(Errc::InvalidInput, to_lines(diagnostics)), diagnostics_(std::move(diagnostics)) {}

std::string to_string(const TensorShape& shape) {
  std::string text = "(B";
  for (const int64_t size : shape) text += "," + std::to_string(size);
  return text + ")";
}

std::string name(LayerKind kind) {
  for (const auto& [word, syntax] : layer_syntax()) {
    if (syntax.kind == kind) return word;
  }
  DLFLOW_CHECK(!"a layer without a word");
}

std::string infer_shape(Layer& layer, std::span<const TensorShape> inputs,
                        std::span<const std::string> input_names) {
  const TensorShape& in = inputs[0];
  const auto wants = [&](const char* what) {
    return name(layer.kind) + " wants " + what + ", gets " + to_string(in) + " from '" +
           input_names[0] + "'";
  };
  switch (layer.kind) {
    case LayerKind::Conv2d:
      return is_map(in) ? infer_window(layer, in, layer.units) : wants("(B,C,H,W)");
    case LayerKind::MaxPool:
    case LayerKind::AvgPool:
      return is_map(in) ? infer_window(layer, in, in[0]) : wants("(B,C,H,W)");
    case LayerKind::GlobalAvgPool:
      if (!is_map(in)) return wants("(B,C,H,W)");
      layer.shape = {in[0]};
      return {};
    case LayerKind::Linear:
      if (in.size() != 1) return wants("(B,F)") + "; put 'flatten' or 'global_avg_pool' before it";
      layer.shape = {layer.units};
      return {};
    case LayerKind::Flatten: {
      int64_t size = 1;
      for (const int64_t n : in) size *= n;
      layer.shape = {size};
      return {};
    }
    case LayerKind::BatchNorm:
    case LayerKind::Relu:
      layer.shape = in;
      return {};
    case LayerKind::Add:
      layer.shape = in;
      if (in == inputs[1]) return {};
      return "add wants two equal shapes, gets " + to_string(in) + " from '" + input_names[0] +
             "' and " + to_string(inputs[1]) + " from '" + input_names[1] + "'";
  }
  return {};
}

}  // namespace dlflow::runtime
