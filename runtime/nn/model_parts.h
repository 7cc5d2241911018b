#pragma once

#include "runtime/nn/model_values.h"

/// The parts of a model file, each read in its own source file; parse_model() calls them.
namespace dlflow::runtime {

/// Reads the attributes of `layer`, whose kind is set. \param of_model  the default of `init`
void read_attributes(ModelValues& values, const YAML::Node& attributes, Init of_model, Layer& layer,
                     ModelScope& scope);

/// Reads `init:` of a layer of `kind`, or of the network (LayerKind::Linear).
Init read_init(ModelValues& values, const YAML::Node& given, LayerKind kind, ModelScope* scope);

/// Resolves the input named by `from:`, or else the layer before; with `both`, the two of them.
void resolve_inputs(ModelValues& values, const ModelEntry& entry, bool both, Layer& layer,
                    ModelScope& scope);

/// Resolves the layers that `from` lists.
void resolve_list(ModelValues& values, const ModelEntry& entry, Layer& layer, ModelScope& scope);

/// Resolves `tied`: the embedding of `model` whose weight a linear layer shares.
void resolve_tied(ModelValues& values, const Model& model, const YAML::Node& node, Layer& layer,
                  ModelScope& scope);

/// Reads `loss` and `ignored_token` of a model.
void read_loss(ModelValues& values, const YAML::Node& root, Model& model);

/// Reports unread layers, a last layer that does not fit the loss, and a network without weights.
/// \param layers  the YAML node to report at
void check_ends(ModelValues& values, const Model& model, const YAML::Node& layers);

}  // namespace dlflow::runtime
