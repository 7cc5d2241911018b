#pragma once

#include <vector>

#include "runtime/nn/model.h"

/// Which layers are computed in one pass over memory. The result is the model's, to the bit.
namespace dlflow::runtime {

/// One or more layers of a model that are executed together.
struct FusedLayer {
  int layer = 0;            ///< index of the layer that gives kind, size and parameters
  std::vector<int> inputs;  ///< indices of earlier fused layers, or kImages
  bool relu = false;        ///< applied to the result
  bool capped = false;      ///< of a batch_norm: the ReLU is a ReLU6
  bool operator==(const FusedLayer&) const = default;
};

/// The model's layers with what follows them folded in, inputs first:
/// - a ReLU goes into the layer before it, a ReLU6 into a batch_norm;
/// - ReLU then max_pool becomes max_pool then ReLU: the same result on a fraction of the data;
/// - an add goes into a batch_norm that feeds only it: that BatchNorm has two inputs, and adds
///   the second to what it normalised.
std::vector<FusedLayer> fuse(const Model& model);

}  // namespace dlflow::runtime
