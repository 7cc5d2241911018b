#pragma once

#include <algorithm>

#include "runtime/data/dataset.h"
#include "runtime/nn/model.h"

namespace dlflow::runtime {

/// The throughput metric, by the unit that is counted: pictures, tokens, or rows.
struct Rate {
  const char* metric = "images_per_s";
  double per_sample = 1;  ///< tokens per sample, on average

  double of(double samples_per_s) const { return samples_per_s * per_sample; }
};

inline Rate rate_of(const Model& model, const Dataset& dataset) {
  const ImageShape& shape = dataset.shape;
  if (model.takes_tokens()) {
    const size_t samples = std::max<size_t>(dataset.size(), 1);
    return {"tokens_per_s", double(num_tokens(dataset)) / double(samples)};
  }
  if (shape.height == 1 && shape.width == 1) return {"samples_per_s", 1};
  return {};
}

}  // namespace dlflow::runtime
