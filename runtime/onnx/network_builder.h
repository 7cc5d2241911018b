#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/onnx/read_onnx.h"

namespace dlflow::runtime {

/// Puts a network together, layer by layer. A layer is known by its index until it is finished.
class NetworkBuilder {
 public:
  /// Throws Error{InvalidInput} if a sample would have too many numbers.
  NetworkBuilder(const std::string& name, TensorShape input);

  /// Adds a layer that reads `inputs`; its index. `layer.shape` is found.
  /// \param wish  what it should be called; empty: by its kind and a number
  /// Throws Error{InvalidInput} if it does not fit what it reads.
  int add(Layer layer, std::vector<int> inputs, const std::string& wish);

  /// The layer that was added last; kImages if there is none.
  int last() const { return int(model_.layers.size()) - 1; }

  Layer& at(int layer) { return model_.layers[size_t(layer)]; }
  const TensorShape& shape_of(int value) const { return model_.shape_of(value); }

  /// Gives a layer its tensor `name`: "weight", "bias".
  void set(int layer, const std::string& name, ImportedTensor tensor);
  ImportedTensor& tensor(int layer, const std::string& name);

  /// The network whose scores are `result`. Throws Error{InvalidInput}.
  ImportedNetwork finish(int result);

 private:
  std::string free_name(const std::string& wish, LayerKind kind);
  void drop_last_softmax();

  Model model_;
  std::vector<std::string> wishes_;  // of layers
  std::vector<std::map<std::string, ImportedTensor>> tensors_;
  std::map<std::string, int> taken_;  // names, and how often they were wished for
  std::vector<std::string> notes_;
};

}  // namespace dlflow::runtime
