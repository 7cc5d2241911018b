#pragma once

#include <span>
#include <string>

#include "runtime/nn/model.h"
#include "runtime/onnx/graph_writer.h"

namespace dlflow::runtime {

/// The values that tell which positions hold tokens, for a network that looks at these alone.
struct TextLengths {
  std::string lengths;  ///< an input: how many tokens each text has, (batch)
  std::string real;     ///< whether a position has a token, (batch,T)

  bool given() const { return !lengths.empty(); }
};

/// Adds them, if the network has a `mean_pool` and learns classes of texts.
TextLengths add_text_lengths(OnnxGraph& graph, const Model& model);

/// Adds the nodes that compute `layer` from the values called `inputs`; the name of its result.
/// The layer's weights must be there under their own names.
std::string add_layer(OnnxGraph& graph, const Model& model, const Layer& layer,
                      std::span<const std::string> inputs, const TextLengths& text);

}  // namespace dlflow::runtime
