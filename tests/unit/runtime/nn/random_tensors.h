#pragma once

#include <random>

#include "runtime/nn/layer_shapes.h"
#include "tests/support/reference/reference_network.h"

/// Inputs for a model, the same on every run.
namespace dlflow::test {

inline void fill(runtime::reference::Tensor& tensor, std::mt19937& random, double scale) {
  std::uniform_real_distribution<double> uniform(-scale, scale);
  // Rounded to single precision, so that both sides start from the same numbers.
  for (double& v : tensor.values) v = double(float(uniform(random)));
}

struct Problem {
  runtime::Model model;
  runtime::reference::NamedTensors weights;
  runtime::reference::Tensor images;
  std::vector<uint32_t> labels;
};

/// A problem with weights of the model's names and shapes.
inline Problem make_problem(runtime::Model model, int64_t batch) {
  Problem p;
  p.model = std::move(model);
  std::mt19937 random(17);
  const auto tensor = [&](const std::string& name, std::vector<int64_t> shape, double scale,
                          double center) {
    runtime::reference::Tensor t(std::move(shape));
    fill(t, random, scale);
    for (double& v : t.values) v = double(float(v + center));
    p.weights[name] = t;
  };
  for (const runtime::Layer& layer : p.model.layers) {
    for (const runtime::LayerTensor& t :
         runtime::tensors_of(layer, p.model.shape_of(layer.inputs[0]))) {
      const bool is_weight = t.name == "weight" && t.fan_in > 0;
      const double scale = is_weight ? 1.7 / std::sqrt(double(t.fan_in)) : t.fan_in > 0 ? 0.3 : 0.5;
      tensor(layer.name + "." + t.name, t.shape, scale, double(t.initial));
    }
  }
  std::vector<int64_t> shape = {batch};
  shape.insert(shape.end(), p.model.input.begin(), p.model.input.end());
  p.images = runtime::reference::Tensor(shape);
  fill(p.images, random, 1);
  if (p.model.takes_tokens()) {
    const int64_t vocabulary = p.model.layers[0].vocabulary;
    for (double& v : p.images.values) v = double(random() % uint64_t(vocabulary));
  }
  for (int64_t i = 0; i < batch; ++i) {
    p.labels.push_back(uint32_t(random() % uint64_t(p.model.num_classes())));
  }
  return p;
}

/// `layers` follows "layers:\n".
inline Problem make_problem(const std::string& input, const std::string& layers, int64_t batch,
                            const std::string& loss = "softmax_cross_entropy") {
  return make_problem(
      runtime::parse_model("name: m\ninput: " + input + "\nloss: " + loss + "\nlayers:\n" + layers,
                           "m.yaml"),
      batch);
}

}  // namespace dlflow::test
