#include "runtime/onnx/write_onnx.h"

#include "base/error.h"
#include "base/output_file.h"
#include "runtime/nn/layer_shapes.h"
#include "runtime/onnx/graph_writer.h"
#include "runtime/onnx/write_layers.h"

namespace dlflow::runtime {
namespace {

std::vector<uint64_t> unsigned_shape(const std::vector<int64_t>& shape) {
  return {shape.begin(), shape.end()};
}

void add_weights(OnnxGraph& graph, const Model& model, const Safetensors& weights) {
  for (const Layer& layer : model.layers) {
    for (const LayerTensor& expected : tensors_of(layer, model.shape_of(layer.inputs[0]))) {
      const TensorView& tensor = weights.at(layer.name + "." + expected.name);
      if (tensor.shape != unsigned_shape(expected.shape) || tensor.dtype != DType::F32) {
        throw Error(Errc::InvalidInput,
                    "tensor '" + tensor.name + "' has another shape or type than the model says");
      }
      graph.add_weight(tensor);
    }
  }
}

/// For each number that the model's input has along its first dimension: of its channel, if
/// features are the pixels of several.
std::vector<float> spread(const std::vector<float>& per_channel, int64_t size) {
  if (per_channel.empty() || size % int64_t(per_channel.size()) != 0) {
    throw Error(Errc::InvalidInput, "the normalisation has " + std::to_string(per_channel.size()) +
                                        " channels, the model's input " + std::to_string(size));
  }
  const int64_t pixels = size / int64_t(per_channel.size());
  std::vector<float> all;
  for (int64_t i = 0; i < size; ++i) all.push_back(per_channel[size_t(i / pixels)]);
  return all;
}

/// input * scale + shift
std::string add_normalization(OnnxGraph& graph, const Model& model, const InputScale& input) {
  std::vector<int64_t> shape(model.input.size(), 1);
  shape[0] = model.input[0];
  const std::string scale =
      graph.add_floats("input.scale", shape, spread(input.scale, model.input[0]));
  const std::string shift =
      graph.add_floats("input.shift", shape, spread(input.shift, model.input[0]));
  const std::string scaled = graph.add("input.scaled", "Mul", {"input", scale});
  return graph.add("input.normalized", "Add", {scaled, shift});
}

}  // namespace

void write_onnx(const std::filesystem::path& path, const Model& model, const Safetensors& weights,
                const InputScale& input, const SafetensorsMetadata& metadata) {
  const bool tokens = model.takes_tokens();
  OnnxGraph graph({"input", tokens ? OnnxType::Int64 : OnnxType::Float, model.input},
                  {"scores", OnnxType::Float, model.layers.back().shape});
  add_weights(graph, model, weights);
  const TextLengths text = add_text_lengths(graph, model);
  const std::string images = tokens ? "input" : add_normalization(graph, model, input);
  std::vector<std::string> results;
  for (const Layer& layer : model.layers) {
    std::vector<std::string> inputs;
    for (const int i : layer.inputs) inputs.push_back(i == kImages ? images : results[size_t(i)]);
    results.push_back(add_layer(graph, model, layer, inputs, text));
  }
  write_output(path, graph.finish(model.name, results.back(), metadata));
}

}  // namespace dlflow::runtime
