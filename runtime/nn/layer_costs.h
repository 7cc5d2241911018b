#pragma once

#include <cstdint>

#include "runtime/nn/model.h"

/// The size of a layer, known from its shapes alone.
namespace dlflow::runtime {

struct LayerCost {
  int64_t parameters = 0;     ///< numbers that training changes; those of a tied weight count once
  int64_t multiply_adds = 0;  ///< of the forward pass of one sample; products of matrices alone
};

/// The cost of `layer`, which is one of `model`.
LayerCost cost_of(const Model& model, const Layer& layer);

/// Of all layers.
LayerCost cost_of(const Model& model);

}  // namespace dlflow::runtime
