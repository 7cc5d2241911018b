#pragma once

#include "runtime/nn/model_values.h"

namespace dlflow::runtime {

/// `loss` and `ignored_token` of a model.
void read_loss(ModelValues& values, const YAML::Node& root, Model& model);

}  // namespace dlflow::runtime
