#pragma once

#include <vector>

#include "runtime/nn/model.h"

/// Fuses layers that are computed in one pass over memory. The result is bitwise that of the model.
namespace dlflow::runtime {

/// One or more layers of a model that are executed together.
struct FusedLayer {
  int layer = 0;            ///< index of the layer that defines kind, size and parameters
  std::vector<int> inputs;  ///< indices of earlier fused layers, or kImages
  bool relu = false;        ///< applied to the result
  bool capped = false;      ///< of a batch_norm: its ReLU is a ReLU6
  bool operator==(const FusedLayer&) const = default;
};

/// Returns the model's layers with their successors folded in, inputs first:
/// - a ReLU goes into the layer before it, a ReLU6 into a batch_norm;
/// - ReLU then max_pool becomes max_pool then ReLU: the same result on a fraction of the data;
/// - an add goes into a batch_norm that feeds only it: this BatchNorm has two inputs, and adds
///   the second to its normalised values.
std::vector<FusedLayer> fuse(const Model& model);

}  // namespace dlflow::runtime
