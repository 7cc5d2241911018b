#include "runtime/onnx/network_builder.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/nn/layer_shapes.h"
#include "runtime/nn/model_text.h"

namespace dlflow::runtime {
namespace {

/// Replaces characters that need quotes in a model file.
std::string cleaned(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '.';
    name += is_plain ? c : '_';
  }
  while (name.starts_with('.')) name.erase(0, 1);
  return name;
}

constexpr int64_t kMaxNumbers = int64_t{1} << 28;  // per value and sample

void check_size(const TensorShape& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 1) {
      throw Error(Errc::InvalidInput,
                  "the sizes of a sample must be at least 1, not " + to_string(shape));
    }
    if (size > kMaxNumbers / count) {
      throw Error(Errc::InvalidInput,
                  "a sample of " + to_string(shape) + " has more than 2^28 numbers");
    }
    count *= size;
  }
}

/// Returns the loss that suits the scores; a file does not name its loss.
LossKind loss_for(const Model& model) {
  const TensorShape &input = model.input, &scores = model.layers.back().shape;
  if (scores.size() == 2) return LossKind::NextToken;
  if (scores.size() == 1 && scores[0] == 1) return LossKind::MeanSquaredError;
  if (scores.size() == 1) return LossKind::SoftmaxCrossEntropy;
  return scores == input ? LossKind::Reconstruction : LossKind::PixelCrossEntropy;
}

}  // namespace

NetworkBuilder::NetworkBuilder(const std::string& name, TensorShape input) {
  model_.name = cleaned(name).empty() ? "network" : cleaned(name);
  check_size(input);
  model_.input = std::move(input);
  taken_["input"] = 1;
}

int NetworkBuilder::add(Layer layer, std::vector<int> inputs, const std::string& wish) {
  layer.inputs = std::move(inputs);
  std::vector<TensorShape> shapes;
  std::vector<std::string> names;
  for (const int input : layer.inputs) {
    shapes.push_back(shape_of(input));
    names.push_back(input == kImages ? "input" : wishes_[size_t(input)]);
  }
  const std::string problem = infer_shape(layer, {shapes, names});
  if (!problem.empty()) throw Error(Errc::InvalidInput, problem);
  check_size(layer.shape);
  wishes_.push_back(cleaned(wish));
  tensors_.emplace_back();
  model_.layers.push_back(std::move(layer));
  return last();
}

void NetworkBuilder::set(int layer, const std::string& name, ImportedTensor tensor) {
  tensors_[size_t(layer)].insert_or_assign(name, std::move(tensor));
}

ImportedTensor& NetworkBuilder::tensor(int layer, const std::string& name) {
  return tensors_[size_t(layer)].at(name);
}

std::string NetworkBuilder::free_name(const std::string& wish, LayerKind kind) {
  if (!wish.empty() && taken_[wish]++ == 0) return wish;
  const std::string stem = wish.empty() ? name(kind) : wish + "_";
  for (int number = wish.empty() ? 1 : 2;; ++number) {
    std::string name = stem + std::to_string(number);
    if (taken_[name]++ == 0) return name;
  }
}

/// Removes a final softmax, which the loss applies itself.
void NetworkBuilder::drop_last_softmax() {
  if (model_.layers.back().kind != LayerKind::Softmax || model_.layers.size() == 1) return;
  model_.layers.pop_back();
  notes_.emplace_back(
      "The last layer of the file is a softmax. The model gives the scores before it, since the "
      "loss is computed from them.");
}

ImportedNetwork NetworkBuilder::finish(int result) {
  if (result != last() || result == kImages) {
    throw Error(Errc::InvalidInput, "the file's output is not the result of its last operation");
  }
  drop_last_softmax();
  ImportedNetwork network;
  for (size_t i = 0; i < model_.layers.size(); ++i) {
    Layer& layer = model_.layers[i];
    layer.name = free_name(wishes_[i], layer.kind);
    for (auto& [name, tensor] : tensors_[i]) {
      network.weights.emplace(layer.name + "." + name, std::move(tensor));
    }
  }
  model_.loss = loss_for(model_);
  network.model = parse_model(to_yaml(model_), model_.name + ".yaml");
  network.model.text = to_yaml(model_);
  network.notes = std::move(notes_);
  return network;
}

}  // namespace dlflow::runtime
