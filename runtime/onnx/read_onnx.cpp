#include "runtime/onnx/read_onnx.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "runtime/onnx/graph_values.h"
#include "runtime/onnx/operations.h"

namespace dlflow::runtime {
namespace {

constexpr int64_t kOldestOperatorSet = 7;  // before it, attributes defined the broadcast of sums
constexpr const char* kAdvice =
    "; docs/user/model-format.md lists the operators that can be layers, from which operator set "
    "on, and how PyTorch trains other networks";

std::string names_of(const std::vector<OnnxPort>& ports) {
  std::string names;
  for (const OnnxPort& port : ports)
    names += (names.empty() ? "'" : ", '") + escaped(port.name) + "'";
  return names;
}

void require_one(const std::vector<OnnxPort>& ports, const char* what) {
  if (ports.size() == 1) return;
  refuse("the file has " + std::to_string(ports.size()) + " " + what + "s" +
         (ports.empty() ? "" : ": " + names_of(ports)) + "; dlflow reads networks with one");
}

/// Returns the shape of one sample.
TensorShape input_shape(const OnnxPort& port, const std::optional<TensorShape>& given) {
  TensorShape shape(port.sizes.begin() + (port.sizes.empty() ? 0 : 1), port.sizes.end());
  if (given && !shape.empty() && given->size() != shape.size()) {
    refuse("--input " + to_string(*given) + ": the file says " + to_string(shape));
  }
  if (given) return *given;
  const bool is_open = std::ranges::any_of(shape, [](int64_t size) { return size < 1; });
  if (shape.empty() || is_open) {
    refuse("the file leaves the sizes of its input '" + escaped(port.name) +
           "' open: give those of one sample, as in --input 3,224,224");
  }
  return shape;
}

/// Returns the nodes that the output depends on, in their order.
std::vector<const OnnxNode*> needed_nodes(const OnnxFile& file) {
  std::map<std::string, const OnnxNode*> givers;
  for (const OnnxNode& node : file.nodes) {
    for (const std::string& output : node.outputs) givers.emplace(output, &node);
  }
  std::set<const OnnxNode*> needed;
  std::vector<std::string> open = {file.outputs[0].name};
  while (!open.empty()) {
    const auto giver = givers.find(open.back());
    open.pop_back();
    if (giver == givers.end() || !needed.insert(giver->second).second) continue;
    for (const std::string& input : giver->second->inputs) open.push_back(input);
  }
  std::vector<const OnnxNode*> nodes;
  for (const OnnxNode& node : file.nodes) {
    if (needed.contains(&node)) nodes.push_back(&node);
  }
  return nodes;
}

void read_node(const OnnxNode& node, NodeReader reader) {
  const auto operation = operations().find(node.operation);
  const bool is_onnx = node.domain.empty() || node.domain == "ai.onnx";
  try {
    if (!is_onnx || operation == operations().end()) refuse("dlflow has no layer for it");
    operation->second(reader);
  } catch (const Error& error) {
    refuse("node '" + escaped(node.name.empty() ? node.outputs[0] : node.name) + "' (" +
           escaped(node.operation) + "): " + error.what() + kAdvice);
  }
}

}  // namespace

ImportedNetwork import_onnx(const OnnxFile& file, const std::string& name,
                            const std::optional<TensorShape>& input) {
  if (file.operator_set < kOldestOperatorSet) {
    refuse("the file uses operator set " + std::to_string(file.operator_set) +
           "; dlflow reads those from " + std::to_string(kOldestOperatorSet) + " on");
  }
  require_one(file.inputs, "input");
  require_one(file.outputs, "output");
  const TensorShape shape = input_shape(file.inputs[0], input);
  NetworkBuilder network(name, shape);
  const std::vector<const OnnxNode*> nodes = needed_nodes(file);
  GraphValues values(file, nodes, size_t(shape[0]));
  std::vector<std::string> notes;
  for (const OnnxNode* node : nodes) {
    read_node(*node, {*node, values, network, notes});
  }
  ImportedNetwork imported = network.finish(values.layer_of(file.outputs[0].name));
  imported.normalization = values.normalization();
  imported.notes.insert(imported.notes.begin(), notes.begin(), notes.end());
  return imported;
}

}  // namespace dlflow::runtime
