#include "runtime/onnx/adaptive_shares.h"
#include "runtime/onnx/operations.h"

/// Means under windows that cover a map, which dlflow's files put together from a product along its
/// rows, one along its columns, and a Transpose behind each.
namespace dlflow::runtime {
namespace {

using Kind = GraphValue::Kind;

/// How many means along `size` numbers the constant has the shares of; 0 if it is none such.
int64_t places_of(const OnnxTensor& constant, int64_t size) {
  if (constant.shape.size() != 2 || constant.shape[0] != size || constant.floats.empty()) return 0;
  const int64_t places = constant.shape[1];
  return constant.floats == adaptive_shares(size, places) ? places : 0;
}

}  // namespace

bool average_columns(NodeReader& node) {
  const Kind kind = node.value(0).kind;
  if (kind != Kind::Layer && kind != Kind::Scaled && kind != Kind::MeansTurned) return false;
  const int from = node.value(0).layer;
  const TensorShape& shape = node.network().shape_of(from);
  if (shape.size() != 3) return false;
  const bool is_turned = kind == Kind::MeansTurned;
  const int64_t places = places_of(node.constant(1), is_turned ? shape[1] : shape[2]);
  if (places == 0) return false;
  GraphValue means = {.kind = is_turned ? Kind::MeansOfBoth : Kind::MeansAcross, .layer = from};
  means.size = is_turned ? Extent(places, node.value(0).size.width) : Extent(0, places);
  if (!is_turned) means.layer = node.layer(0);
  node.give(std::move(means));
  return true;
}

bool turn_means(NodeReader& node) {
  const GraphValue means = node.value(0);
  if (means.kind != Kind::MeansAcross && means.kind != Kind::MeansOfBoth) return false;
  if (node.integers("perm") != std::vector<int64_t>{0, 1, 3, 2})
    refuse("it is behind means of a map's rows, whose two directions alone it may swap");
  if (means.kind == Kind::MeansAcross) {
    node.give({.kind = Kind::MeansTurned, .layer = means.layer, .size = means.size});
    return true;
  }
  Layer layer;
  layer.kind = LayerKind::AdaptiveAvgPool;
  layer.size = means.size;
  node.add(std::move(layer), {means.layer});
  return true;
}

}  // namespace dlflow::runtime
