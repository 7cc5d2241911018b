#pragma once

#include "runtime/nn/model_values.h"

namespace dlflow::runtime {

/// Reads what a layer says of itself into `layer`, whose kind is set: the sizes, the rates, how its
/// weights begin. \param of_model  how weights begin if neither says it
void read_attributes(ModelValues& values, const YAML::Node& attributes, Init of_model, Layer& layer,
                     ModelScope& scope);

/// `init:` of a layer of `kind`, or of the network (LayerKind::Linear).
Init read_init(ModelValues& values, const YAML::Node& given, LayerKind kind, ModelScope* scope);

}  // namespace dlflow::runtime
