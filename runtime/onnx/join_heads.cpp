#include <algorithm>

#include "runtime/onnx/attention_heads.h"

namespace dlflow::runtime {
namespace {

constexpr int64_t kMaxFeatures = int64_t{1} << 24;

/// Where a row of the joined weights is from.
struct Row {
  int layer;
  int64_t feature;
};

std::vector<Row> rows_of(const Heads& heads) {
  std::vector<Row> rows;
  const auto add = [&](int layer, const std::vector<int64_t>& all) {
    for (const int64_t head : all) {
      for (int64_t i = 0; i < heads.size; ++i) rows.push_back({layer, head + i});
    }
  };
  add(heads.layer_of_queries, heads.queries);
  add(heads.layer_of_keys, heads.keys);
  add(heads.layer_of_values, heads.values);
  return rows;
}

/// The linear layers that `rows` are of, which must be the last ones, read the same, and be read by
/// attention alone.
std::vector<int> layers_to_join(NodeReader& node, const std::vector<Row>& rows) {
  std::vector<int> layers;
  for (const Row& row : rows) {
    if (row.feature >= node.network().shape_of(row.layer).back())
      refuse("its heads are not features of the layer before it");
    if (std::ranges::count(layers, row.layer) == 0) layers.push_back(row.layer);
  }
  std::ranges::sort(layers);
  NetworkBuilder& network = node.network();
  int64_t features = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const bool is_last = layers[i] == network.last() - int(layers.size() - 1 - i);
    if (layers[i] == kImages || !is_last || network.at(layers[i]).kind != LayerKind::Linear ||
        network.at(layers[i]).tied != kImages ||
        network.at(layers[i]).inputs != network.at(layers[0]).inputs)
      refuse(
          "its queries, keys and values are not those of one layer, one after the other, nor of "
          "linear layers that read the same and come right before it");
  }
  for (const int layer : layers) features += network.at(layer).units;
  if (int64_t(rows.size()) > features) refuse("it reads the same queries twice");
  return layers;
}

/// One linear layer of these rows instead of those that they are of; its index.
int join(NodeReader& node, const std::vector<Row>& rows) {
  const std::vector<int> layers = layers_to_join(node, rows);
  NetworkBuilder& network = node.network();
  Layer joined = network.at(layers[0]);
  const int64_t columns = network.tensor(layers[0], "weight").shape[1];
  joined.units = int64_t(rows.size());
  joined.bias = std::ranges::any_of(layers, [&](int layer) { return network.at(layer).bias; });
  ImportedTensor weight{{joined.units, columns}, {}}, bias{{joined.units}, {}};
  for (const Row& row : rows) {
    const std::vector<float>& from = network.tensor(row.layer, "weight").numbers;
    const auto begin = from.begin() + row.feature * columns;
    weight.numbers.insert(weight.numbers.end(), begin, begin + columns);
    const bool has_bias = network.at(row.layer).bias;
    bias.numbers.push_back(has_bias ? network.tensor(row.layer, "bias").numbers[size_t(row.feature)]
                                    : 0);
  }
  const std::vector<int> inputs = joined.inputs;
  const std::string wish =
      layers.size() == 1 ? network.wish(layers[0]) : node.joined_name(layers[0]);
  node.remove_layers_from(layers[0]);
  const bool has_bias = joined.bias;
  const int index = network.add(std::move(joined), inputs, wish);
  network.set(index, "weight", std::move(weight));
  if (has_bias) network.set(index, "bias", std::move(bias));
  return index;
}

}  // namespace

int layer_of_heads(NodeReader& node, const Heads& heads) {
  const size_t count = heads.queries.size() + heads.keys.size() + heads.values.size();
  if (checked_product(heads.size, int64_t(count)) > kMaxFeatures)
    refuse("it has more than 2^24 features");
  const std::vector<Row> rows = rows_of(heads);
  const int layer = heads.layer_of_queries;
  bool is_there = node.network().shape_of(layer).back() == int64_t(rows.size());
  for (size_t i = 0; i < rows.size(); ++i)
    is_there = is_there && rows[i].layer == layer && rows[i].feature == int64_t(i);
  return is_there ? layer : join(node, rows);
}

}  // namespace dlflow::runtime
