#include <limits>

#include "runtime/onnx/operations.h"

namespace dlflow::runtime {
namespace {

using Kind = GraphValue::Kind;

void add_activation(NodeReader& node, LayerKind kind) { node.add({.kind = kind}, {node.layer(0)}); }

/// Returns a bound of Clip: an attribute before operator set 11, an input since.
float bound(NodeReader& node, const char* name, size_t input, float usual) {
  if (!node.has(input)) return node.number(name, usual);
  const OnnxTensor& constant = node.constant(input);
  if (constant.size() != 1) refuse("its bounds are not numbers");
  return number_of(constant);
}

}  // namespace

void read_relu(NodeReader& node) { add_activation(node, LayerKind::Relu); }
void read_sigmoid(NodeReader& node) { add_activation(node, LayerKind::Sigmoid); }
void read_tanh(NodeReader& node) { add_activation(node, LayerKind::Tanh); }

void read_leaky_relu(NodeReader& node) {
  const auto slope = double(node.number("alpha", 0.01f));
  if (!(slope >= 0 && slope < 1)) refuse("its slope is not from 0 to less than 1");
  node.add({.kind = LayerKind::LeakyRelu, .slope = slope}, {node.layer(0)});
}

void read_clip(NodeReader& node) {
  constexpr float kMost = std::numeric_limits<float>::max();
  const float low = bound(node, "min", 1, -kMost), high = bound(node, "max", 2, kMost);
  if (low == 0 && high == 6) return add_activation(node, LayerKind::Relu6);
  if (low == 0 && high >= kMost) return add_activation(node, LayerKind::Relu);
  refuse("with bounds, dlflow has only relu and relu6");
}

void read_softmax(NodeReader& node) {
  const auto rank = int64_t(node.shape(0).size()) + 1;
  const int64_t axis = node.integer("axis", node.operator_set() < 13 ? 1 : -1);
  if (axis != -1 && axis != rank - 1)
    refuse("dlflow's softmax works only along the last dimension");
  add_activation(node, LayerKind::Softmax);
}

void read_gelu(NodeReader& node) {
  if (node.text("approximate", "none") != "none")
    refuse("dlflow's gelu is the exact one only, not the approximation by tanh");
  add_activation(node, LayerKind::Gelu);
}

bool multiply_sigmoid(NodeReader& node, size_t factor, size_t sigmoid) {
  if (!node.is(Kind::Layer, factor) || !node.is(Kind::Layer, sigmoid)) return false;
  const int index = node.value(sigmoid).layer;
  if (index == kImages || !node.is_only_reader_of_layer(sigmoid)) return false;
  Layer& layer = node.network().at(index);
  if (layer.kind != LayerKind::Sigmoid || layer.inputs[0] != node.value(factor).layer) return false;
  layer.kind = LayerKind::Silu;
  node.give_layer(index);
  return true;
}

}  // namespace dlflow::runtime
