#pragma once

#include <string>

#include "runtime/nn/model.h"

namespace dlflow::runtime {

/// Writes `model` as a model file, layer by layer; parse_model() reads the same model from it.
/// Names of layers may have letters, digits and `._-/`.
std::string to_yaml(const Model& model);

}  // namespace dlflow::runtime
