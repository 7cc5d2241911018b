#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "base/file.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/gpu/replica.h"
#include "tests/support/reference/reference_network.h"

/// Compares one training step of a plug-in with the reference layers, with or without a GPU.
namespace dlflow::test {

/// Batch normalisation whose input is also added to its output: one value gets two gradients.
constexpr const char* kNormalisedAndAdded = R"(name: added
input: [2, 6, 6]
layers:
  - conv2d: {name: a, channels: 3, kernel: 3, padding: 1, bias: false}
  - batch_norm: {name: b}
  - add: {from: a}
  - relu
  - flatten
  - linear: {features: 4}
)";

/// The first layers of larger networks, with more output channels and more weights per channel than
/// one GPU block handles in the backward pass.
constexpr const char* kStem = R"(name: stem
input: [3, 15, 15]
layers:
  - conv2d: {name: a, channels: 40, kernel: 7, stride: 2, padding: 3, bias: false}
  - batch_norm: {name: b}
  - relu
  - max_pool: {kernel: 3, stride: 2, padding: 1}
  - conv2d: {name: c, channels: 5, kernel: 1, stride: 2}
  - relu
  - global_avg_pool
  - linear: {features: 4}
)";

/// Many channels, and values with gradients from two operations: a strided convolution adds to what
/// pooling wrote, and vice versa.
constexpr const char* kWide = R"(name: wide
input: [3, 10, 10]
layers:
  - conv2d: {name: a, channels: 70, kernel: 3, padding: 1}
  - relu: {name: r}
  - conv2d: {name: b, channels: 150, kernel: 1, stride: 2}
  - max_pool: {name: p, from: r, kernel: 3, stride: 2, padding: 1}
  - conv2d: {name: c, channels: 150, kernel: 1, bias: false}
  - batch_norm: {name: d}
  - add: {from: b}
  - relu: {name: s}
  - avg_pool: {name: q, kernel: 3, stride: 2, padding: 1}
  - conv2d: {name: e, from: s, channels: 150, kernel: 1, stride: 2}
  - add: {from: q}
  - global_avg_pool
  - linear: {features: 4}
)";

/// With one sample, batch normalisation has one value per channel.
constexpr const char* kOneValue = R"(name: one
input: [5]
layers:
  - linear: {name: a, features: 6, bias: false}
  - batch_norm: {name: b}
  - linear: {features: 3}
)";

/// A model with weights and a batch, the same in every run.
struct GpuProblem {
  runtime::Model model;
  std::shared_ptr<const runtime::WeightLayout> layout;
  std::vector<float> weights, images;
  std::vector<uint32_t> labels;
};

inline GpuProblem make_gpu_problem(const runtime::Model& model, size_t batch, unsigned seed = 0) {
  GpuProblem p{model, runtime::plain_layout(model), {}, {}, {}};
  p.weights.resize(p.layout->size());
  runtime::initialise(*p.layout, 7 + seed, p.weights);
  std::mt19937 random(11 + seed);
  std::uniform_real_distribution<float> uniform(-1.5f, 1.5f);
  size_t pixels = 1;
  for (const int64_t n : model.input) pixels *= size_t(n);
  for (size_t i = 0; i < batch * pixels; ++i) p.images.push_back(uniform(random));
  for (size_t i = 0; i < batch; ++i) {
    p.labels.push_back(uint32_t(random() % uint64_t(model.num_classes())));
  }
  // Otherwise a layer with 'init: zero' would give its inputs a zero gradient.
  for (size_t i = 0; i < p.layout->parameters().size(); ++i) {
    if (!p.layout->parameters()[i].name.ends_with(".weight")) continue;
    const std::span<float> values = p.layout->make_plain(p.weights, i);
    if (values.front() == 0) std::ranges::generate(values, [&] { return uniform(random); });
  }
  return p;
}

/// A model that the project ships: "mlp", "lenet", "resnet20".
inline runtime::Model shipped_model(const std::string& models, const std::string& name) {
  const std::string file = models + "/" + name + ".yaml";
  return runtime::parse_model(read_file(file), file);
}

inline GpuProblem make_gpu_problem(const std::string& models, const std::string& name,
                                   size_t batch) {
  return make_gpu_problem(shipped_model(models, name), batch);
}

/// A rank's share of a problem's samples; may be empty.
struct GpuShare {
  std::span<const float> images;
  std::span<const uint32_t> labels;
};

inline GpuShare share_of(const GpuProblem& p, const runtime::Communicator& comm) {
  const size_t count = p.labels.size(), pixels = p.images.size() / count;
  const size_t begin = count * size_t(comm.rank()) / size_t(comm.size());
  const size_t end = count * size_t(comm.rank() + 1) / size_t(comm.size());
  return {std::span(p.images).subspan(begin * pixels, (end - begin) * pixels),
          std::span(p.labels).subspan(begin, end - begin)};
}

inline runtime::reference::Step reference_step(const GpuProblem& p) {
  runtime::reference::NamedTensors weights;
  for (size_t i = 0; i < p.layout->parameters().size(); ++i) {
    const runtime::Parameter& parameter = p.layout->parameters()[i];
    runtime::reference::Tensor tensor(parameter.shape);
    const std::vector<float> values = p.layout->to_plain(p.weights, i);
    tensor.values.assign(values.begin(), values.end());
    weights[parameter.name] = std::move(tensor);
  }
  std::vector<int64_t> shape = {int64_t(p.labels.size())};
  shape.insert(shape.end(), p.model.input.begin(), p.model.input.end());
  runtime::reference::Tensor images(shape);
  images.values.assign(p.images.begin(), p.images.end());
  return runtime::reference::train_step(p.model, weights, images, p.labels);
}

/// |computed - expected| / |expected|, over whole tensors; NaN if a number is missing.
inline double distance(std::span<const float> computed, std::span<const double> expected,
                       double scale) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(double(computed[i]) - scale * expected[i], 2);
    size += std::pow(scale * expected[i], 2);
  }
  return computed.size() == expected.size() ? std::sqrt(difference / size) : NAN;
}

/// By name: "scores", "loss", and each parameter's gradient or statistic.
using Distances = std::map<std::string, double>;

/// Compares one step from the problem's weights, which it does not change, with the reference.
inline Distances distances_of_step(const runtime::GpuLibraries& libraries, const GpuProblem& p) {
  constexpr size_t kReport = 16;
  const runtime::reference::Step expected = reference_step(p);
  runtime::ThreadGroup group(1);
  runtime::GpuReplica replica(group.communicator(0), libraries, p.model, p.labels.size(), kReport);
  replica.set_state(p.weights, std::vector<float>(p.layout->trainable_size()));
  const float scale = 1 / float(p.labels.size());
  const std::vector<float> report(kReport);
  const auto end = replica.step(p.images, p.labels, scale, report, {});
  Distances distances;
  distances["loss"] =
      std::abs(end.report[0] - expected.loss_sum * scale) / (expected.loss_sum * scale);
  std::vector<float> scores(expected.scores.values.size());
  replica.get_scores(scores);
  distances["scores"] = distance(scores, expected.scores.values, 1);
  std::vector<float> gradients(p.layout->size());
  replica.get_gradients(gradients);
  for (size_t i = 0; i < p.layout->parameters().size(); ++i) {
    const runtime::Parameter& parameter = p.layout->parameters()[i];
    const std::vector<float> mine = p.layout->to_plain(gradients, i);
    const bool trains = parameter.trainable;
    const auto& theirs = trains ? expected.gradients : expected.moments;
    distances[parameter.name] =
        distance(mine, theirs.at(parameter.name).values, trains ? scale : 1);
  }
  return distances;
}

}  // namespace dlflow::test
