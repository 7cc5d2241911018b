#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "runtime/onnx/read_onnx.h"
#include "tests/support/reference/reference_network.h"

/// onnx_scores FILE.onnx: reads FILE.input (float64) and writes FILE.scores, the scores of the
/// reference with the imported network.
namespace dlflow::runtime {
namespace {

reference::Tensor images_for(const ImportedNetwork& network, const std::string& bytes) {
  std::vector<int64_t> shape = network.model.input;
  int64_t per_sample = 1;
  for (const int64_t size : shape) per_sample *= size;
  shape.insert(shape.begin(), int64_t(bytes.size() / sizeof(double)) / per_sample);
  reference::Tensor images(shape);
  std::memcpy(images.values.data(), bytes.data(), bytes.size());
  if (network.normalization) {
    const auto& [scale, shift] = *network.normalization;
    const size_t per_channel = size_t(per_sample) / scale.size();
    for (size_t i = 0; i < images.values.size(); ++i) {
      const size_t channel = i / per_channel % scale.size();
      images.values[i] = images.values[i] * double(scale[channel]) + double(shift[channel]);
    }
  }
  return images;
}

void write_scores(std::filesystem::path path) {
  const ImportedNetwork network = import_onnx(read_onnx_file(path), path.stem());
  reference::NamedTensors weights;
  for (const auto& [name, tensor] : network.weights) {
    weights[name] = reference::Tensor(tensor.shape);
    weights[name].values = {tensor.numbers.begin(), tensor.numbers.end()};
  }
  const reference::Tensor images = images_for(network, read_file(path.replace_extension("input")));
  const auto scores = reference::infer(network.model, weights, images).values;
  write_file(path.replace_extension("scores"),
             {reinterpret_cast<const char*>(scores.data()), scores.size() * sizeof(double)});
  for (const Layer& layer : network.model.layers) std::printf("%s\n", layer.name.c_str());
}

}  // namespace
}  // namespace dlflow::runtime

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    dlflow::runtime::write_scores(argv[1]);
    return 0;
  } catch (const dlflow::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
