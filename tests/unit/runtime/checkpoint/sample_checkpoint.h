#pragma once

#include "runtime/checkpoint/checkpoint.h"

namespace dlflow::test {

/// A small checkpoint of step `step`, whose numbers depend on the step.
struct SampleCheckpoint {
  explicit SampleCheckpoint(uint64_t step_) : step(step_) {
    for (int i = 0; i < 6; ++i) {
      weights.push_back(float(step) + float(i) / 7);
      momenta.push_back(-weights.back());
    }
    metrics = {{"accuracy", double(step) / 1000}, {"loss", 1.0 / 3}};
  }

  /// Borrows this object.
  runtime::CheckpointContent content() const {
    return {.info = {.step = step,
                     .epoch = step / 10,
                     .samples = step * 64,
                     .metrics = metrics,
                     .model = "layers: [linear]\n"},
            .model = {runtime::tensor_view<float>("w", shape, weights)},
            .optimizer = {runtime::tensor_view<float>("momentum.w", shape, momenta)},
            .state = {{"seed", 17}, {"position", step * 64}}};
  }

  uint64_t step;
  std::vector<uint64_t> shape = {2, 3};
  std::vector<float> weights;
  std::vector<float> momenta;
  std::map<std::string, double> metrics;
};

}  // namespace dlflow::test
