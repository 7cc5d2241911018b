#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/onnx/read_onnx.h"

namespace dlflow::runtime {

/// Builds a network, layer by layer. Layers are identified by index until it is finished.
class NetworkBuilder {
 public:
  /// Throws Error{InvalidInput} if a sample would have too many numbers.
  NetworkBuilder(const std::string& name, TensorShape input);

  /// Adds a layer that reads `inputs`, and returns its index. Sets `layer.shape`. Throws
  /// Error{InvalidInput} if the layer does not fit its inputs.
  /// \param wish  preferred name; empty: named by kind and number
  int add(Layer layer, std::vector<int> inputs, const std::string& wish);

  /// The last layer added; kImages if there is none.
  int last() const { return int(model_.layers.size()) - 1; }

  Layer& at(int layer) { return model_.layers[size_t(layer)]; }
  const TensorShape& shape_of(int value) const { return model_.shape_of(value); }

  /// Sets the layer's tensor `name`: "weight", "bias".
  void set(int layer, const std::string& name, ImportedTensor tensor);
  ImportedTensor& tensor(int layer, const std::string& name);

  /// Returns the network whose scores are `result`. Throws Error{InvalidInput}.
  ImportedNetwork finish(int result);

 private:
  std::string free_name(const std::string& wish, LayerKind kind);
  void drop_last_softmax();

  Model model_;
  std::vector<std::string> wishes_;  // names, by layer
  std::vector<std::map<std::string, ImportedTensor>> tensors_;
  std::map<std::string, int> taken_;  // names, and how often each was requested
  std::vector<std::string> notes_;
};

}  // namespace dlflow::runtime
