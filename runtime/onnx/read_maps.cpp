#include <algorithm>
#include <cmath>

#include "runtime/onnx/operations.h"

namespace dlflow::runtime {
namespace {

/// Returns the number that all `sizes` share. Refuses different ones.
int64_t one_of(const std::vector<int64_t>& sizes, int64_t usual, const char* what) {
  if (sizes.empty()) return usual;
  check_extent(sizes);
  for (const int64_t size : sizes) {
    if (size != sizes[0])
      refuse("dlflow's pools are square only, but its " + std::string(what) + " differ");
  }
  return sizes[0];
}

/// Returns a pool's result size if its last windows may lie partly outside.
int64_t places_with_ceiling(int64_t size, const Layer& layer) {
  const int64_t kernel = layer.kernel.height, stride = layer.stride.height;
  const int64_t padding = layer.padding.height;
  int64_t places = (size + 2 * padding - kernel + stride - 1) / stride + 1;
  if ((places - 1) * stride >= size + padding) --places;
  return places;
}

void add_pool(NodeReader& node, LayerKind kind) {
  const Extent around = node.take_padding();
  const TensorShape in = node.shape(0);
  if (in.size() != 3)
    refuse("dlflow's pools read (B,C,H,W) only, but this one gets " + to_string(in));
  Layer layer = {.kind = kind};
  layer.kernel = one_of(node.integers("kernel_shape"), 0, "sides");
  layer.stride = one_of(node.integers("strides"), 1, "strides");
  layer.padding = one_of(node.integers("pads"), 0, "pads");
  if (layer.kernel.height < 1 || layer.stride.height < 1 || layer.padding.height < 0)
    refuse("its sizes are below 1");
  const std::string automatic = node.text("auto_pad", "NOTSET");
  if (automatic != "NOTSET" && automatic != "VALID")
    refuse("its padding depends on the size of the map");
  if (one_of(node.integers("dilations"), 1, "dilations") != 1)
    refuse("dlflow's pools have no dilation");
  const bool is_padded = layer.padding.height > 0;
  if (kind == LayerKind::AvgPool && is_padded && node.integer("count_include_pad", 0) == 0)
    refuse("dlflow's avg_pool counts padding as zeros, but this node leaves it out");
  if (around != Extent(0)) {
    if (is_padded || kind != LayerKind::AvgPool || around.height != around.width)
      refuse("it pads its input in a way that dlflow's pools cannot");
    layer.padding = around;
  }
  const int index = node.add(layer, {node.layer(0)});
  if (node.integer("ceil_mode", 0) == 0) return;
  const TensorShape& out = node.network().at(index).shape;
  if (out[1] != places_with_ceiling(in[1], layer) || out[2] != places_with_ceiling(in[2], layer))
    refuse("its last windows lie half outside of the map (ceil_mode)");
}

/// Adds the mean of each channel, (B,C) or (B,C,1,1).
void add_global_mean(NodeReader& node, bool keeps_dimensions) {
  const TensorShape& in = node.shape(0);
  if (in.size() != 3) refuse("it needs maps, (B,C,H,W), but gets " + to_string(in));
  Layer layer = {.kind = LayerKind::GlobalAvgPool};
  if (keeps_dimensions && !node.is_read_by_only({"Flatten", "Reshape", "Squeeze"})) {
    layer = {.kind = LayerKind::AdaptiveAvgPool, .size = 1};
  }
  node.add(std::move(layer), {node.layer(0)});
}

/// Returns the integer factor by which Resize enlarges both directions of a map.
int64_t factor(NodeReader& node, const TensorShape& in) {
  const size_t scales = node.operation() == "Upsample" ? 1 : 2;
  double down = 0, across = 0;
  if (node.has(scales) && node.constant(scales).floats.size() == 4) {
    const std::vector<float>& all = node.constant(scales).floats;
    if (all[0] == 1 && all[1] == 1) down = double(all[2]), across = double(all[3]);
  } else if (node.has(3) && node.integers(3).size() == 4) {
    const std::vector<int64_t>& sizes = node.integers(3);
    if (sizes[1] == in[0]) {
      down = double(sizes[2]) / double(in[1]);
      across = double(sizes[3]) / double(in[2]);
    }
  }
  if (down < 1 || down != across || down != std::floor(down) || down > 1e6)
    refuse("dlflow's upsample enlarges only by a whole number, the same in both directions");
  return int64_t(down);
}

/// Whether each pixel becomes a square of copies, given an integer factor.
bool takes_nearest(const NodeReader& node) {
  if (node.text("mode", "nearest") != "nearest") return false;
  if (node.operation() == "Upsample") return true;
  const std::string transformation = node.text("coordinate_transformation_mode", "half_pixel");
  const std::string rounding = node.text("nearest_mode", "round_prefer_floor");
  return (transformation == "asymmetric" && rounding == "floor") ||
         (transformation == "half_pixel" && rounding.starts_with("round_prefer"));
}

void concat_constants(NodeReader& node) {
  OnnxTensor all;
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    const std::vector<int64_t>& part = node.integers(i);
    all.integers.insert(all.integers.end(), part.begin(), part.end());
  }
  all.shape = {int64_t(all.integers.size())};
  node.give_constant(std::move(all));
}

}  // namespace

void read_pad(NodeReader& node) {
  const std::vector<int64_t> pads = node.list("pads", 1);
  check_extent(pads);
  if (std::ranges::all_of(pads, [](int64_t pad) { return pad == 0; })) return pass_on(node);
  const bool is_zero =
      !node.has(2) || (node.constant(2).floats.size() == 1 && node.constant(2).floats[0] == 0);
  if (node.text("mode", "constant") != "constant" || !is_zero)
    refuse("dlflow pads with zeros only");
  const bool is_around = pads.size() == 8 && pads[0] + pads[1] + pads[4] + pads[5] == 0 &&
                         pads[2] == pads[6] && pads[3] == pads[7];
  if (!is_around) refuse("it pads the sides of a map differently; dlflow has no such layer");
  node.give(
      {.kind = GraphValue::Kind::Padded, .layer = node.layer(0), .padding = {pads[2], pads[3]}});
}

void read_max_pool(NodeReader& node) { add_pool(node, LayerKind::MaxPool); }
void read_average_pool(NodeReader& node) { add_pool(node, LayerKind::AvgPool); }
void read_global_average_pool(NodeReader& node) { add_global_mean(node, true); }

void read_reduce_mean(NodeReader& node) {
  std::vector<int64_t> axes = node.list("axes", 1);
  const bool keeps_dimensions = node.integer("keepdims", 1) != 0;
  const auto rank = int64_t(node.shape(0).size()) + 1;
  for (int64_t& axis : axes) axis += axis < 0 ? rank : 0;
  std::ranges::sort(axes);
  if (rank == 3 && axes == std::vector<int64_t>{1} && !keeps_dimensions) {
    node.add({.kind = LayerKind::MeanPool}, {node.layer(0)});
    return;
  }
  if (axes != std::vector<int64_t>{2, 3})
    refuse("dlflow has only means of whole maps and of positions");
  add_global_mean(node, keeps_dimensions);
}

void read_resize(NodeReader& node) {
  const TensorShape in = node.shape(0);
  if (in.size() != 3) refuse("it needs maps, (B,C,H,W), but gets " + to_string(in));
  if (!takes_nearest(node)) refuse("dlflow's upsample takes the nearest pixel only");
  node.add({.kind = LayerKind::Upsample, .scale = factor(node, in)}, {node.layer(0)});
}

void read_concat(NodeReader& node) {
  if (node.is_constant(0)) return concat_constants(node);
  std::vector<int> inputs;
  for (size_t i = 0; i < node.num_inputs(); ++i) inputs.push_back(node.layer(i));
  const auto rank = int64_t(node.shape(0).size()) + 1;
  int64_t axis = node.integer("axis", 1);
  if (axis < 0) axis += rank;
  if (axis != (rank == 4 ? 1 : rank - 1)) refuse("dlflow's concat joins channels or features only");
  if (inputs.size() == 1) return node.give_layer(inputs[0]);
  node.add({.kind = LayerKind::Concat}, std::move(inputs));
}

}  // namespace dlflow::runtime
