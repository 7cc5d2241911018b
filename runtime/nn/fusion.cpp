#include "runtime/nn/fusion.h"

#include <algorithm>

namespace dlflow::runtime {
namespace {

enum class ReluBehind { Folds, Apart };

bool folds_relu(LayerKind kind) {
  switch (kind) {
#define DLFLOW_LAYER(Kind, word, required, optional, relu, gpu) \
  case LayerKind::Kind:                                         \
    return ReluBehind::relu == ReluBehind::Folds;
#include "runtime/nn/layers.def"
#undef DLFLOW_LAYER
  }
  return false;
}

class Fusion {
 public:
  explicit Fusion(const Model& model) : model_(model) {
    for (size_t i = 0; i < model.layers.size(); ++i) {
      nodes_.push_back({{int(i), model.layers[i].inputs, false}, int(i), true});
    }
  }

  std::vector<FusedLayer> run() {
    for (int i = 0; i < int(nodes_.size()); ++i) pool_before_relu(i);
    for (int i = 0; i < int(nodes_.size()); ++i) fold_add(i);
    for (int i = 0; i < int(nodes_.size()); ++i) fold_relu(i);
    return in_order();
  }

 private:
  struct Node {
    FusedLayer fused;
    int position;  // the last layer folded in; all inputs are ready there
    bool alive;
  };

  LayerKind kind(int i) const { return model_.layers[size_t(nodes_[size_t(i)].fused.layer)].kind; }

  int num_readers(int i) const {
    int readers = i + 1 == int(nodes_.size()) ? 1 : 0;  // the loss reads the last result
    for (const Node& node : nodes_) {
      if (node.alive) readers += int(std::ranges::count(node.fused.inputs, i));
    }
    return readers;
  }

  void replace(int from, int to) {
    nodes_[size_t(from)].alive = false;
    for (Node& node : nodes_) std::ranges::replace(node.fused.inputs, from, to);
    nodes_[size_t(to)].position = std::max(nodes_[size_t(to)].position, from);
  }

  void pool_before_relu(int pool) {
    FusedLayer& fused = nodes_[size_t(pool)].fused;
    if (kind(pool) != LayerKind::MaxPool || fused.inputs[0] == kImages) return;
    const int relu = fused.inputs[0];
    if (kind(relu) != LayerKind::Relu || num_readers(relu) > 1) return;
    fused.inputs = nodes_[size_t(relu)].fused.inputs;
    fused.relu = true;
    nodes_[size_t(relu)].alive = false;
  }

  void fold_add(int add) {
    if (kind(add) != LayerKind::Add) return;
    const std::vector<int> inputs = nodes_[size_t(add)].fused.inputs;
    for (size_t i = 0; i < 2; ++i) {
      const int norm = inputs[i];
      if (norm == kImages || kind(norm) != LayerKind::BatchNorm || num_readers(norm) > 1) continue;
      if (nodes_[size_t(norm)].fused.inputs.size() > 1) continue;  // it already adds a value
      nodes_[size_t(norm)].fused.inputs.push_back(inputs[1 - i]);
      return replace(add, norm);
    }
  }

  void fold_relu(int relu) {
    Node& node = nodes_[size_t(relu)];
    const bool capped = kind(relu) == LayerKind::Relu6;
    if (!node.alive || (kind(relu) != LayerKind::Relu && !capped)) return;
    const int before = node.fused.inputs[0];
    if (before == kImages || num_readers(before) > 1) return;
    FusedLayer& fused = nodes_[size_t(before)].fused;
    if (fused.relu || !folds_relu(kind(before))) return;
    if (capped && kind(before) != LayerKind::BatchNorm) return;
    fused.relu = true;
    fused.capped = capped;
    replace(relu, before);
  }

  std::vector<FusedLayer> in_order() const {
    std::vector<int> order;
    for (int i = 0; i < int(nodes_.size()); ++i) {
      if (nodes_[size_t(i)].alive) order.push_back(i);
    }
    std::ranges::sort(order, {}, [&](int i) { return nodes_[size_t(i)].position; });
    std::vector<int> place(nodes_.size());
    for (size_t i = 0; i < order.size(); ++i) place[size_t(order[i])] = int(i);
    std::vector<FusedLayer> result;
    for (const int i : order) {
      result.push_back(nodes_[size_t(i)].fused);
      for (int& input : result.back().inputs) {
        if (input != kImages) input = place[size_t(input)];
      }
    }
    return result;
  }

  const Model& model_;
  std::vector<Node> nodes_;
};

}  // namespace

std::vector<FusedLayer> fuse(const Model& model) { return Fusion(model).run(); }

}  // namespace dlflow::runtime
