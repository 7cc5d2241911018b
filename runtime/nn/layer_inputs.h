#pragma once

#include "runtime/nn/model_values.h"

/// The values that a layer reads: `from`, the layer before it, `tied`.
namespace dlflow::runtime {

/// `from:` or the layer before, or `both`.
void resolve_inputs(ModelValues& values, const ModelEntry& entry, bool both, Layer& layer,
                    ModelScope& scope);

/// The layers that `from` lists.
void resolve_list(ModelValues& values, const ModelEntry& entry, Layer& layer, ModelScope& scope);

/// `tied`: the embedding of `model` whose weight a linear layer uses.
void resolve_tied(ModelValues& values, const Model& model, const YAML::Node& node, Layer& layer,
                  ModelScope& scope);

}  // namespace dlflow::runtime
