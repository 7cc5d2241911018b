#include <algorithm>
#include <cmath>
#include <functional>

#include "runtime/onnx/operations.h"

/// Attention, softmax(q * transposed(k) / sqrt(D) + mask) * v, which files put together from
/// products of views (views.h).
///
/// Each step only notes what it does; the last product knows all of it and adds the layer. There
/// the heads are counted in the order of the dimensions before the last two, with the place of each
/// in the layer that it is from: that tells which layout of queries, keys and values the file has,
/// how ever it came to it. dlflow's layer reads queries, then keys, then values of one layer.
/// Linear layers that give them in another order, or apart, become one.
namespace dlflow::runtime {
namespace {

using Kind = GraphValue::Kind;

constexpr float kHidden = -1e4f;  // a mask's numbers up to it leave a position out
constexpr int64_t kMaxHeads = 65'536;
constexpr int64_t kMaxFeatures = int64_t{1} << 24;

/// The dimensions before the last two, of which missing ones are 1.
std::vector<Dimension> leading(const View& view, size_t rank) {
  std::vector<Dimension> all(rank - (view.dimensions.size() - 2));
  all.insert(all.end(), view.dimensions.begin(), view.dimensions.end() - 2);
  return all;
}

/// Sizes before and behind the batch of a dimension; without a batch, all are behind.
struct HeadSizes {
  int64_t before = 1, behind = 1;
  bool has_batch = false;
  int64_t all() const { return before * behind; }
};

HeadSizes head_sizes(const Dimension& dimension) {
  HeadSizes sizes;
  for (const Factor& factor : dimension) {
    if (factor.size == kBatch) {
      if (sizes.has_batch) refuse("the batch is in it twice");
      sizes = {sizes.behind, 1, true};
    } else {
      sizes.behind = checked_product(sizes.behind, factor.size);
    }
  }
  return sizes;
}

/// Those of the dimensions of queries, keys and values together; a size of 1 is repeated.
HeadSizes common(const std::vector<Dimension>& dimensions) {
  HeadSizes result;
  for (const Dimension& dimension : dimensions) {
    const HeadSizes sizes = head_sizes(dimension);
    if (dimension.empty()) continue;
    const bool is_first = result.all() == 1 && !result.has_batch;
    const bool fits = sizes.has_batch == result.has_batch && sizes.before == result.before &&
                      sizes.behind == result.behind;
    if (!is_first && !fits) refuse("queries, keys and values have different heads");
    result = sizes;
  }
  return result;
}

/// Where each head begins that a dimension counts.
std::vector<int64_t> places_in(const Dimension& dimension, int64_t count) {
  std::vector<int64_t> places = {0};
  for (const Factor& factor : dimension) {
    if (factor.size == kBatch) continue;
    std::vector<int64_t> more;
    for (const int64_t place : places) {
      for (int64_t i = 0; i < factor.size; ++i) more.push_back(place + i * factor.stride);
    }
    places = std::move(more);
  }
  if (int64_t(places.size()) < count) places.resize(size_t(count), places[0]);
  return places;
}

/// Queries, keys or values: where each head begins in a sample's features.
std::vector<int64_t> heads_of(const View& view, const std::vector<HeadSizes>& sizes) {
  std::vector<int64_t> heads = {view.offset};
  const std::vector<Dimension> dimensions = leading(view, sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::vector<int64_t> more;
    for (const int64_t head : heads) {
      for (const int64_t place : places_in(dimensions[i], sizes[i].all()))
        more.push_back(head + place);
    }
    heads = std::move(more);
  }
  return heads;
}

/// Its last two dimensions are all positions and a head's features.
void require_positions(NodeReader& node, const View& view, int64_t size, const char* what) {
  const TensorShape& shape = node.network().shape_of(view.layer);
  const auto& dimensions = view.dimensions;
  const Dimension positions = simplified({{shape[0], shape[1]}}),
                  features = simplified({{size, 1}});
  if (dimensions[dimensions.size() - 2] != positions || dimensions.back() != features)
    refuse("its " + std::string(what) + " are not those of all positions, with " +
           std::to_string(size) + " features that lie side by side");
}

/// What the layers before attention give, head by head.
struct Heads {
  int64_t size = 1;  ///< features of each
  std::vector<int64_t> queries, keys, values;
  int layer_of_queries = kImages, layer_of_keys = kImages, layer_of_values = kImages;
  size_t group = 1;  ///< heads of queries that have the keys and values of one
};

/// Heads of queries side by side that share keys and values.
void group_heads(Heads& heads) {
  const size_t count = heads.queries.size();
  size_t group = 1;
  const auto equals = [&](size_t i, size_t j) {
    return heads.keys[i] == heads.keys[j] && heads.values[i] == heads.values[j];
  };
  while (group < count && equals(group, 0)) ++group;
  if (count % group != 0) refuse("its heads of queries have keys in groups of different sizes");
  std::vector<int64_t> keys, values;
  for (size_t i = 0; i < count; ++i) {
    if (!equals(i, i - i % group))
      refuse("heads of queries that share keys do not lie side by side");
    if (i % group == 0) keys.push_back(heads.keys[i]), values.push_back(heads.values[i]);
  }
  heads.group = group;
  heads.keys = std::move(keys);
  heads.values = std::move(values);
}

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

/// The layer that gives queries, then keys, then values.
int layer_before(NodeReader& node, const Heads& heads) {
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

void require_scale(float factor, int64_t size) {
  const double expected = 1 / std::sqrt(double(size));
  if (std::abs(double(factor) / expected - 1) < 1e-4) return;
  char text[64];
  std::snprintf(text, sizeof text, "%g, not 1/sqrt(%lld) = %g", double(factor),
                static_cast<long long>(size), expected);
  refuse("its scores are multiplied with " + std::string(text) + " as those of dlflow's attention");
}

/// (batch and heads as queries have them, T, D) of the result.
View result_of(NodeReader& node, int layer, const std::vector<HeadSizes>& sizes, int64_t size) {
  const TensorShape& shape = node.network().shape_of(layer);
  View result{.layer = layer, .dimensions = std::vector<Dimension>(sizes.size())};
  int64_t stride = size;
  for (size_t i = sizes.size(); i-- > 0;) {
    const HeadSizes& heads = sizes[i];
    Dimension& dimension = result.dimensions[i];
    dimension.push_back({heads.before, stride * heads.behind});
    if (heads.has_batch) dimension.push_back({kBatch, 0});
    dimension.push_back({heads.behind, stride});
    stride *= heads.all();
  }
  result.dimensions.push_back({{shape[0], shape[1]}});
  result.dimensions.push_back({{size, 1}});
  return result;
}

void require_rotation(const View& queries, const View& keys, const View& values, int64_t size) {
  if (values.rotated != 0 || queries.rotated != keys.rotated ||
      (queries.rotated != 0 && queries.rotated != size))
    refuse("it rotates other values by their position than whole heads of queries and of keys");
}

void add_attention(NodeReader& node, const Scores& scores, const View& values) {
  const View &queries = scores.queries, &keys = scores.keys;
  const size_t most =
      std::max({queries.dimensions.size(), keys.dimensions.size(), values.dimensions.size()});
  std::vector<HeadSizes> sizes;
  int64_t count = 1, batches = 0;
  for (size_t i = 0; i + 2 < most; ++i) {
    sizes.push_back(common(
        {leading(queries, most - 2)[i], leading(keys, most - 2)[i], leading(values, most - 2)[i]}));
    for (const View* view : {&queries, &keys, &values})
      if (sizes.back().has_batch && leading(*view, most - 2)[i].empty())
        refuse("its queries, keys and values are not of the same samples");
    batches += sizes.back().has_batch ? 1 : 0;
    count = checked_product(count, sizes.back().all());
  }
  if (batches != 1) refuse("its products are not those of each sample");
  if (count > kMaxHeads) refuse("it has more than 65,536 heads");
  Heads heads;
  heads.size = size_of(queries.dimensions.back());
  require_positions(node, queries, heads.size, "queries");
  require_positions(node, keys, heads.size, "keys");
  require_positions(node, values, heads.size, "values");
  require_rotation(queries, keys, values, heads.size);
  require_scale(scores.factor * queries.factor * keys.factor, heads.size);
  if (values.factor != 1) refuse("its values are multiplied with a number");
  heads.queries = heads_of(queries, sizes);
  heads.keys = heads_of(keys, sizes);
  heads.values = heads_of(values, sizes);
  heads.layer_of_queries = queries.layer;
  heads.layer_of_keys = keys.layer;
  heads.layer_of_values = values.layer;
  group_heads(heads);
  Layer layer;
  layer.kind = LayerKind::Attention;
  layer.heads = int64_t(heads.queries.size());
  layer.kv_heads = int64_t(heads.keys.size());
  layer.causal = scores.causal;
  layer.rotary = queries.rotated != 0;
  const int index = node.add(std::move(layer), {layer_before(node, heads)});
  give_view(node, result_of(node, index, sizes, heads.size));
}

void give_scores(NodeReader& node, Scores scores, Kind kind = Kind::Scores) {
  const int layer = scores.queries.layer;
  node.give({.kind = kind, .layer = layer, .scores = std::make_shared<Scores>(std::move(scores))});
}

/// (T,T), or with dimensions of 1 before it.
std::vector<float> square_mask(NodeReader& node, size_t constant, int64_t positions) {
  const OnnxTensor& mask = node.constant(constant);
  const size_t rank = mask.shape.size();
  const bool fits = rank >= 2 && mask.shape[rank - 1] == positions &&
                    mask.shape[rank - 2] == positions &&
                    int64_t(mask.size()) == positions * positions;
  if (!fits) refuse("its mask is not one of positions, (T,T)");
  if (!mask.floats.empty()) return mask.floats;
  return {mask.integers.begin(), mask.integers.end()};
}

/// Whether `is_hidden` of (query, key) leaves out just the positions behind each. Refuses others
/// than those, and none.
bool is_causal(int64_t positions, const std::function<bool(size_t)>& is_hidden) {
  bool hides = false, is_plain = true;
  for (int64_t i = 0; i < positions; ++i) {
    for (int64_t j = 0; j < positions; ++j) {
      const bool hidden = is_hidden(size_t(i * positions + j));
      hides = hides || hidden;
      is_plain = is_plain && hidden == (j > i);
    }
  }
  if (hides && !is_plain)
    refuse("its mask is not the causal one, which leaves out what comes later");
  return hides;
}

int64_t positions_of(NodeReader& node, const Scores& scores) {
  return node.network().shape_of(scores.queries.layer)[0];
}

void hide(NodeReader& node, const Scores& scores, bool causal) {
  Scores masked = scores;
  masked.causal = masked.causal || causal;
  masked.is_masked = true;
  give_scores(node, std::move(masked));
}

// Rotation by position

/// Whether `constant` is (T, half) of cosines or sines of the angles of dlflow's rotary positions.
bool is_table(NodeReader& node, size_t constant, int64_t positions, int64_t half,
              double (*function)(double)) {
  const OnnxTensor& table = node.constant(constant);
  const size_t rank = table.shape.size();
  if (rank < 2 || table.shape[rank - 1] != half || table.shape[rank - 2] != positions ||
      int64_t(table.floats.size()) != positions * half)
    return false;
  for (int64_t t = 0; t < positions; ++t) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = double(t) * std::pow(10000.0, -double(i) / double(half));
      if (!(std::abs(double(table.floats[size_t(t * half + i)]) - function(angle)) < 1e-4))
        return false;
    }
  }
  return true;
}

double cosine(double angle) { return std::cos(angle); }
double sine(double angle) { return std::sin(angle); }

/// `second` is the other half of the heads that `first` is of.
bool are_halves(const View& first, const View& second) {
  View moved = first;
  moved.offset += size_of(first.dimensions.back());
  return moved == second;
}

void give_turned(NodeReader& node, Kind kind, const View& view) {
  node.give({.kind = kind, .layer = view.layer, .view = std::make_shared<View>(view)});
}

}  // namespace

bool multiply_results(NodeReader& node) {
  if (node.is(Kind::Shares, 0)) {
    const View values = view_at(node, 1);
    if (values.dimensions.size() < 2) refuse("its values are no matrices");
    const Scores scores = *node.value(0).scores;
    add_attention(node, scores, values);
    return true;
  }
  if (!is_sequence(node, 0) || !is_sequence(node, 1)) return false;
  View queries = view_at(node, 0), keys = view_at(node, 1);
  if (queries.dimensions.size() < 2 || keys.dimensions.size() < 2)
    refuse("its queries or keys are no matrices");
  std::swap(keys.dimensions.back(), keys.dimensions[keys.dimensions.size() - 2]);
  give_scores(node, {std::move(queries), std::move(keys)});
  return true;
}

bool scale_scores(NodeReader& node, size_t value, float factor) {
  if (node.is(Kind::View, value)) {
    View scaled = *node.value(value).view;
    scaled.factor *= factor;
    give_view(node, std::move(scaled));
    return true;
  }
  if (!node.is(Kind::Scores, value)) return false;
  Scores scaled = *node.value(value).scores;
  if (scaled.is_masked && factor != 1) refuse("it multiplies scores that have their mask already");
  scaled.factor *= factor;
  give_scores(node, std::move(scaled));
  return true;
}

bool add_mask(NodeReader& node, size_t value, size_t constant) {
  if (!node.is(Kind::Scores, value)) return false;
  const Scores scores = *node.value(value).scores;
  const int64_t positions = positions_of(node, scores);
  if (is_number(node.constant(constant), 0)) {
    give_scores(node, scores);
    return true;
  }
  const std::vector<float> mask = square_mask(node, constant, positions);
  for (const float number : mask) {
    if (!(number == 0 || number <= kHidden))
      refuse("its mask adds numbers to scores; that of dlflow's attention leaves positions out");
  }
  hide(node, scores, is_causal(positions, [&](size_t i) { return mask[i] != 0; }));
  return true;
}

bool soften_scores(NodeReader& node) {
  if (!node.is(Kind::Scores, 0)) return false;
  const Scores scores = *node.value(0).scores;
  const auto rank =
      int64_t(std::max(scores.queries.dimensions.size(), scores.keys.dimensions.size()));
  const int64_t axis = node.integer("axis", node.operator_set() < 13 ? 1 : -1);
  if (axis != -1 && axis != rank - 1) refuse("softmax of dlflow is along the last dimension");
  give_scores(node, scores, Kind::Shares);
  return true;
}

void read_is_nan(NodeReader& node) {
  if (!node.is(Kind::Shares, 0)) refuse("dlflow has it only as a part of attention");
  GraphValue none = node.value(0);
  none.kind = Kind::NoShares;
  node.give(std::move(none));
}

void read_where(NodeReader& node) {
  if (node.is(Kind::NoShares, 0) && node.is(Kind::Shares, 2) &&
      node.value(0).scores == node.value(2).scores)
    return node.give(node.value(2));
  if (node.is_constant(0) && node.is_constant(1) && node.is_constant(2))
    return choose_constants(node);
  for (const size_t value : {size_t{1}, size_t{2}}) {
    const size_t number = 3 - value;
    if (!node.is(Kind::Scores, value) || !node.is_constant(number)) continue;
    const OnnxTensor& low = node.constant(number);
    if (low.size() != 1 || !(number_of(low) <= kHidden))
      refuse("its mask gives scores; that of dlflow's attention leaves positions out");
    const Scores scores = *node.value(value).scores;
    const int64_t positions = positions_of(node, scores);
    const std::vector<float> mask = square_mask(node, 0, positions);
    return hide(node, scores,
                is_causal(positions, [&](size_t i) { return (mask[i] != 0) == (number == 1); }));
  }
  refuse("dlflow has it only as a mask of attention");
}

bool rotate_half(NodeReader& node, size_t value, size_t constant) {
  if (!node.is(Kind::View, value)) return false;
  const View view = *node.value(value).view;
  const auto& dimensions = view.dimensions;
  if (dimensions.size() < 2 || view.rotated != 0) return false;
  const TensorShape& shape = node.network().shape_of(view.layer);
  const int64_t half = size_of(dimensions.back());
  if (dimensions[dimensions.size() - 2] != simplified({{shape[0], shape[1]}})) return false;
  if (dimensions.back() != simplified({{half, 1}})) return false;
  const bool is_cosine = is_table(node, constant, shape[0], half, cosine);
  if (!is_cosine && !is_table(node, constant, shape[0], half, sine)) return false;
  give_turned(node, is_cosine ? Kind::TimesCosine : Kind::TimesSine, view);
  return true;
}

bool combine_halves(NodeReader& node) {
  const bool is_sum = node.operation() == "Add";
  if (!is_sum && node.is(Kind::TimesCosine, 0) && node.is(Kind::TimesSine, 1)) {
    const View first = *node.value(0).view, second = *node.value(1).view;
    if (!are_halves(first, second)) return false;
    give_turned(node, Kind::FirstRotated, first);
    return true;
  }
  if (!is_sum) return false;
  for (const auto& [cos, sin] : {std::pair{size_t{0}, size_t{1}}, {1, 0}}) {
    if (!node.is(Kind::TimesCosine, cos) || !node.is(Kind::TimesSine, sin)) continue;
    const View first = *node.value(sin).view, second = *node.value(cos).view;
    if (!are_halves(first, second)) return false;
    give_turned(node, Kind::SecondRotated, first);
    return true;
  }
  return false;
}

bool concat_halves(NodeReader& node) {
  if (node.num_inputs() != 2 || !node.is(Kind::FirstRotated, 0) || !node.is(Kind::SecondRotated, 1))
    return false;
  View heads = *node.value(0).view;
  const auto rank = int64_t(heads.dimensions.size());
  const int64_t axis = node.integer("axis", 1);
  if (heads != *node.value(1).view || (axis != -1 && axis != rank - 1)) return false;
  const int64_t size = 2 * size_of(heads.dimensions.back());
  heads.dimensions.back() = simplified({{size, 1}});
  heads.rotated = size;
  give_view(node, std::move(heads));
  return true;
}

}  // namespace dlflow::runtime
