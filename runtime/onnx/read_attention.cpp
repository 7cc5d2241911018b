#include <algorithm>
#include <functional>

#include "runtime/onnx/attention_heads.h"
#include "runtime/onnx/operations.h"

/// Attention, softmax(q * transposed(k) / sqrt(D) + mask) * v, which files put together from
/// products of views (views.h). Each step only notes what it does; the last product knows all of it
/// and adds the layer (attention_heads.h).
namespace dlflow::runtime {
namespace {

using Kind = GraphValue::Kind;

constexpr float kHidden = -1e4f;  // a mask's numbers up to it leave a position out

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

/// (B,1,…,T)
bool is_of_positions(const std::vector<int64_t>& sizes, int64_t positions) {
  return sizes.size() > 2 && sizes.back() == positions &&
         std::all_of(sizes.begin() + 1, sizes.end() - 1, [](int64_t size) { return size == 1; });
}

/// Positions behind the end of a text get low scores.
bool hide_positions_behind(NodeReader& node) {
  if (!node.is(Kind::HasToken, 0) || !node.is(Kind::Scores, 1) || !node.is_constant(2))
    return false;
  const OnnxTensor& low = node.constant(2);
  Scores scores = *node.value(1).scores;
  if (low.size() != 1 || !(number_of(low) <= kHidden) ||
      !is_of_positions(node.value(0).sizes, positions_of(node, scores)))
    return false;
  scores.is_masked = scores.of_tokens = true;
  give_scores(node, std::move(scores));
  return true;
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
  if (hide_positions_behind(node) || keep_tokens(node)) return;
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

}  // namespace dlflow::runtime
