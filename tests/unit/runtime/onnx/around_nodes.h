#pragma once

#include <string>
#include <vector>

#include "tests/support/onnx_message.h"
#include "tests/unit/runtime/onnx/onnx_graph.h"

/// Files with a network around the nodes under test.
namespace dlflow::test {

inline Message number(const std::string& name, float value) {
  return numbers_of(name, {}, {value});
}

/// A file of nodes that read x, the maps of a convolution (a network has weights), and give y.
inline std::string on_maps(const std::vector<Message>& nodes, std::vector<Message> constants = {},
                           const std::vector<int64_t>& input = {-1, 3, 8, 8},
                           uint64_t operator_set = 17) {
  std::vector<Message> all = {node("Conv", {"in", "first"}, "x")};
  all.insert(all.end(), nodes.begin(), nodes.end());
  constants.push_back(floats("first", {input[1], input[1], 1, 1}));
  return file_of(all, constants, input, operator_set, "in");
}

/// Files with one operation on such maps, x, whose result is m.
struct OnMaps {
  std::vector<Message> constants = {};
  std::vector<int64_t> input = {-1, 3, 8, 8};

  std::string file(const std::vector<Message>& nodes) const {
    std::vector<Message> all = nodes;
    all.push_back(node("GlobalAveragePool", {"m"}, "g"));
    all.push_back(node("Flatten", {"g"}, "y"));
    return on_maps(all, constants, input);
  }
  runtime::Layer layer(const Message& operation) const {
    return imported(file({operation})).model.layers.at(1);
  }
  std::string refused(const Message& operation) const { return refusal(file({operation})); }
};

/// Files with one operation on features (B,4), after a linear layer.
struct OnFeatures {
  std::vector<Message> constants = {};
  uint64_t operator_set = 17;

  std::string file(const std::vector<Message>& nodes) const {
    std::vector<Message> all = {node("MatMul", {"x", "w"}, "l")};
    all.insert(all.end(), nodes.begin(), nodes.end());
    std::vector<Message> with_weights = constants;
    with_weights.push_back(floats("w", {3, 4}));
    return file_of(all, with_weights, {-1, 3}, operator_set);
  }
  runtime::Layer layer(const Message& operation) const {
    return imported(file({operation})).model.layers.at(1);
  }
  std::string refused(const Message& operation) const { return refusal(file({operation})); }
};

/// A file of nodes on sequences (B,6,4), after an embedding.
inline std::string on_sequences(const std::vector<Message>& nodes,
                                std::vector<Message> constants = {}) {
  std::vector<Message> all = {node("Gather", {"table", "x"}, "e")};
  all.insert(all.end(), nodes.begin(), nodes.end());
  constants.push_back(floats("table", {5, 4}));
  return file_of(all, constants, {-1, 6});
}

}  // namespace dlflow::test
