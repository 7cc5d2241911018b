#pragma once

#include <cstdint>

#include "runtime/nn/model.h"

/// The cost of a layer, computed from its shapes alone.
namespace dlflow::runtime {

struct LayerCost {
  int64_t parameters = 0;     ///< numbers that training changes; a tied weight counts once
  int64_t multiply_adds = 0;  ///< of one sample's forward pass; matrix products only
};

/// The cost of `layer`, which must belong to `model`.
LayerCost cost_of(const Model& model, const Layer& layer);

/// The total cost of all layers.
LayerCost cost_of(const Model& model);

}  // namespace dlflow::runtime
