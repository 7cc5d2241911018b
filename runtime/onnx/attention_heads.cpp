#include "runtime/onnx/attention_heads.h"

#include <algorithm>
#include <cmath>

#include "runtime/onnx/operations.h"

/// The heads are counted in the order of the dimensions before the last two. Where each begins in
/// the layer that it is from tells which layout of queries, keys and values the file has, however
/// it came to it.
namespace dlflow::runtime {
namespace {

constexpr int64_t kMaxHeads = 65'536;

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

}  // namespace

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
  if (node.has_text_lengths() && !scores.of_tokens && !scores.causal)
    refuse(
        "it looks at the positions behind the end of a text, which attention of dlflow leaves out");
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
  const int index = node.add(std::move(layer), {layer_of_heads(node, heads)});
  give_view(node, result_of(node, index, sizes, heads.size));
}

}  // namespace dlflow::runtime
