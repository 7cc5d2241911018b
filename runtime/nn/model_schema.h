#pragma once

#include <string>

namespace dlflow::runtime {

/// The JSON Schema (draft 2020-12) of model files, for editors, generated from layer_syntax(). It
/// does not express shapes, names of earlier layers and parameters of blocks.
std::string model_schema();

}  // namespace dlflow::runtime
