#pragma once

#include <random>

#include "runtime/nn/reference/reference_network.h"

/// Inputs for a model, the same on every run.
namespace dlflow::test {

inline void fill(runtime::reference::Tensor& tensor, std::mt19937& random, double scale) {
  std::uniform_real_distribution<double> uniform(-scale, scale);
  // What single precision can hold, so that both sides start from the same numbers.
  for (double& v : tensor.values) v = double(float(uniform(random)));
}

struct Problem {
  runtime::Model model;
  runtime::reference::NamedTensors weights;
  runtime::reference::Tensor images;
  std::vector<uint32_t> labels;
};

/// `layers` follows "layers:\n"; weights are named and shaped as the model wants them.
inline Problem make_problem(const std::string& input, const std::string& layers, int64_t batch) {
  using runtime::LayerKind;
  Problem p;
  p.model = runtime::parse_model("name: m\ninput: " + input + "\nlayers:\n" + layers, "m.yaml");
  std::mt19937 random(17);
  const auto tensor = [&](const std::string& name, std::vector<int64_t> shape, double scale,
                          double center) {
    runtime::reference::Tensor t(std::move(shape));
    fill(t, random, scale);
    for (double& v : t.values) v = double(float(v + center));
    p.weights[name] = t;
  };
  for (const runtime::Layer& layer : p.model.layers) {
    const runtime::TensorShape& in = p.model.shape_of(layer.inputs[0]);
    if (layer.kind == LayerKind::BatchNorm) {
      tensor(layer.name + ".weight", {in[0]}, 0.5, 1);
      tensor(layer.name + ".bias", {in[0]}, 0.5, 0);
      tensor(layer.name + ".running_mean", {in[0]}, 0.5, 0);
      tensor(layer.name + ".running_var", {in[0]}, 0.5, 1);
    } else if (layer.units > 0) {
      std::vector<int64_t> shape = {layer.units, in[0]};
      if (layer.kernel > 0) shape.insert(shape.end(), {layer.kernel, layer.kernel});
      const double fan_in = double(in[0] * std::max<int64_t>(layer.kernel * layer.kernel, 1));
      tensor(layer.name + ".weight", shape, 1.7 / std::sqrt(fan_in), 0);
      if (layer.bias) tensor(layer.name + ".bias", {layer.units}, 0.3, 0);
    }
  }
  std::vector<int64_t> shape = {batch};
  shape.insert(shape.end(), p.model.input.begin(), p.model.input.end());
  p.images = runtime::reference::Tensor(shape);
  fill(p.images, random, 1);
  for (int64_t i = 0; i < batch; ++i) {
    p.labels.push_back(uint32_t(random() % uint64_t(p.model.num_classes())));
  }
  return p;
}

}  // namespace dlflow::test
