#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "runtime/onnx/write_onnx.h"
#include "tests/unit/runtime/nn/every_layer.h"
#include "tests/unit/runtime/nn/random_tensors.h"

/// onnx_cases FOLDER: for a network of every layer, and for some that come with dlflow, writes
/// NAME.onnx, NAME.input and NAME.scores (float64, the scores of the reference), in which the input
/// is what the network gets once it is normalised; and of texts NAME.lengths (float64).
namespace dlflow::runtime {
namespace {

constexpr int64_t kBatch = 2;

std::vector<float> to_floats(const reference::Tensor& tensor) {
  return {tensor.values.begin(), tensor.values.end()};
}

void write_doubles(const std::filesystem::path& path, const std::vector<double>& values) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()),
             std::streamsize(values.size() * sizeof(double)));
}

/// The checkpoint's file of weights, read back.
Safetensors saved(const std::filesystem::path& path, const reference::NamedTensors& weights) {
  std::map<std::string, std::vector<float>> floats;
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : weights) {
    floats[name] = to_floats(tensor);
    views.push_back(
        tensor_view<float>(name, {tensor.shape.begin(), tensor.shape.end()}, floats[name]));
  }
  write_safetensors(path, views);
  return Safetensors::open(path);
}

/// A scale for two channels of pixels, or one for each feature.
InputScale scale_of(const Model& model) {
  InputScale input;
  const size_t channels =
      model.input.size() == 1 && model.input[0] % 2 == 0 ? 2 : size_t(model.input[0]);
  for (size_t i = 0; i < channels; ++i) {
    input.scale.push_back(0.5f + float(i % 3));
    input.shift.push_back(0.25f * float(i % 5) - 0.5f);
  }
  return input;
}

/// The input before normalisation whose result is `normalized`.
std::vector<double> before_normalization(const Model& model, const InputScale& input,
                                         const reference::Tensor& normalized) {
  std::vector<double> values = normalized.values;
  const size_t per_sample = values.size() / size_t(kBatch);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t channel = (i % per_sample) * input.scale.size() / per_sample;
    if (!model.takes_tokens()) {
      values[i] = (values[i] - double(input.shift[channel])) / double(input.scale[channel]);
    }
  }
  return values;
}

/// The number of tokens of each text, if the network takes texts of unequal length.
std::vector<float> lengths_of(const Model& model) {
  const bool has_texts = std::ranges::any_of(
      model.layers, [](const Layer& layer) { return layer.kind == LayerKind::MeanPool; });
  return has_texts ? std::vector<float>{1, float(model.input[0] - 1)} : std::vector<float>();
}

void write_case(const std::filesystem::path& folder, const std::string& name,
                const test::Problem& problem) {
  const Model& model = problem.model;
  const InputScale input = scale_of(model);
  const Safetensors weights = saved(folder / (name + ".safetensors"), problem.weights);
  write_onnx(folder / (name + ".onnx"), model, weights, input, {{"name", name}});
  write_doubles(folder / (name + ".input"), before_normalization(model, input, problem.images));
  const std::vector<float> lengths = lengths_of(model);
  if (!lengths.empty())
    write_doubles(folder / (name + ".lengths"), {lengths.begin(), lengths.end()});
  write_doubles(folder / (name + ".scores"),
                reference::infer(model, problem.weights, problem.images, lengths).values);
}

void write_cases(const std::filesystem::path& folder) {
  int number = 0;
  for (const test::LayerCase& layer : test::every_layer()) {
    write_case(folder, layer.word + "-" + std::to_string(number++),
               test::make_problem(layer.input, layer.layers, kBatch));
  }
  for (const std::string name : {"lenet", "resnet20", "mlp", "text-classes"}) {
    const std::string path = std::string(DLFLOW_MODELS) + "/" + name + ".yaml";
    write_case(folder, name, test::make_problem(parse_model(read_file(path), path), kBatch));
  }
}

}  // namespace
}  // namespace dlflow::runtime

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  dlflow::runtime::write_cases(argv[1]);
  return 0;
}
