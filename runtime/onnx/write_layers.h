#pragma once

#include <span>
#include <string>

#include "runtime/nn/model.h"
#include "runtime/onnx/graph_writer.h"

namespace dlflow::runtime {

/// Adds the nodes that compute `layer` from the values called `inputs`; the name of its result.
/// The layer's weights must be there under their own names.
std::string add_layer(OnnxGraph& graph, const Model& model, const Layer& layer,
                      std::span<const std::string> inputs);

}  // namespace dlflow::runtime
