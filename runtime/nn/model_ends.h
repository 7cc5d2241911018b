#pragma once

#include "runtime/nn/model_values.h"

namespace dlflow::runtime {

/// Reports layers that nothing reads, a last layer that does not give what the loss takes, and a
/// network without weights. \param layers  where the network stands
void check_ends(ModelValues& values, const Model& model, const YAML::Node& layers);

}  // namespace dlflow::runtime
