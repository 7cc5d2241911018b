#pragma once

#include "runtime/nn/model_values.h"

/// The parts of a model file, each read in a source file of its own; parse_model() calls them.
namespace dlflow::runtime {

/// Reads what a layer says of itself into `layer`, whose kind is set: the sizes, the rates, how its
/// weights begin. \param of_model  how weights begin if neither says it
void read_attributes(ModelValues& values, const YAML::Node& attributes, Init of_model, Layer& layer,
                     ModelScope& scope);

/// `init:` of a layer of `kind`, or of the network (LayerKind::Linear).
Init read_init(ModelValues& values, const YAML::Node& given, LayerKind kind, ModelScope* scope);

/// `from:` or the layer before, or `both`.
void resolve_inputs(ModelValues& values, const ModelEntry& entry, bool both, Layer& layer,
                    ModelScope& scope);

/// The layers that `from` lists.
void resolve_list(ModelValues& values, const ModelEntry& entry, Layer& layer, ModelScope& scope);

/// `tied`: the embedding of `model` whose weight a linear layer uses.
void resolve_tied(ModelValues& values, const Model& model, const YAML::Node& node, Layer& layer,
                  ModelScope& scope);

/// `loss` and `ignored_token` of a model.
void read_loss(ModelValues& values, const YAML::Node& root, Model& model);

/// Reports layers that nothing reads, a last layer that does not give what the loss takes, and a
/// network without weights. \param layers  where the network stands
void check_ends(ModelValues& values, const Model& model, const YAML::Node& layers);

}  // namespace dlflow::runtime
