#include <algorithm>

#include "runtime/nn/layer_shapes.h"
#include "runtime/nn/model_parts.h"

namespace dlflow::runtime {
namespace {

void check_pixel_scores(ModelValues& values, const Model& model, const Layer& last) {
  const TensorShape &scores = last.shape, &input = model.input;
  const bool fits =
      scores.size() == 3 && input.size() == 3 && scores[1] == input[1] && scores[2] == input[2];
  if (fits && scores[0] >= 2 && scores[0] <= int64_t(kIgnoredClass)) return;
  values.report(last.line, last.column,
                "with 'loss: " + name(model.loss) +
                    "' the last layer must give one score per class and pixel of the input, "
                    "(B,classes,H,W), of 2 to " +
                    std::to_string(kIgnoredClass) + " classes; '" + last.name + "' gives " +
                    to_string(last.shape) + " for " + to_string(input));
}

void check_scores(ModelValues& values, const Model& model, const Layer& last) {
  if (model.loss == LossKind::Reconstruction) {
    if (last.shape == model.input && !model.takes_tokens()) return;
    return values.report(
        last.line, last.column,
        "with 'loss: reconstruction' the last layer must give the shape of the input, " +
            to_string(model.input) + "; '" + last.name + "' gives " + to_string(last.shape));
  }
  if (has_targets(model.loss)) {
    if (last.shape.size() == 1) return;
    return values.report(last.line, last.column,
                         "with 'loss: " + name(model.loss) +
                             "' the last layer must give one number per target, (B,F); '" +
                             last.name + "' gives " + to_string(last.shape));
  }
  if (has_masks(model.loss)) return check_pixel_scores(values, model, last);
  const bool tokens = model.loss == LossKind::NextToken;
  const bool fits = tokens ? last.shape.size() == 2 && model.input == TensorShape{last.shape[0]}
                           : last.shape.size() == 1;
  if (!fits || last.shape.back() < 2) {
    return values.report(
        last.line, last.column,
        std::string("the last layer must give one score per ") +
            (tokens ? "token and position, (B,T,F), where the input is (B,T)," : "class, (B,F)") +
            " with F of at least 2; '" + last.name + "' gives " + to_string(last.shape));
  }
  if (tokens && (!model.takes_tokens() || model.input[0] < 2)) {
    values.report(
        last.line, last.column,
        "'loss: next_token' needs a network that begins with an embedding of its input, of "
        "two tokens or more");
  }
}

}  // namespace

void check_ends(ModelValues& values, const Model& model, const YAML::Node& layers) {
  std::vector<bool> used(model.layers.size());
  for (const Layer& layer : model.layers) {
    for (const int index : layer.inputs) {
      if (index != kImages) used[size_t(index)] = true;
    }
  }
  used.back() = true;
  for (size_t i = 0; i < used.size(); ++i) {
    const Layer& layer = model.layers[i];
    if (!used[i]) values.report(layer.line, layer.column, "nothing reads '" + layer.name + "'");
  }
  const Layer& last = model.layers.back();
  check_scores(values, model, last);
  const bool learns = std::any_of(model.layers.begin(), model.layers.end(), [&](const Layer& l) {
    return !tensors_of(l, model.shape_of(l.inputs[0])).empty();
  });
  if (!learns) values.report(layers, "no layer has weights: there is nothing to train");
}

}  // namespace dlflow::runtime
