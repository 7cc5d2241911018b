#pragma once

#include "runtime/checkpoint/checkpoint.h"

namespace dlflow::test {

constexpr const char* kSampleModel =
    "name: sample\ninput: [3]\nlayers:\n  - linear: {name: w, features: 2, bias: false}\n";

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
                     .model = kSampleModel},
            .model = {runtime::tensor_view<float>("w.weight", shape, weights)},
            .optimizer = {runtime::tensor_view<float>("w.weight.momentum", shape, momenta)},
            .state = {{"seed", 17},
                      {"position", step * 64},
                      {"normalization", {{"scale", {0.5}}, {"shift", {-1}}}},
                      {"classes", {"no", "yes"}}}};
  }

  uint64_t step;
  std::vector<uint64_t> shape = {2, 3};
  std::vector<float> weights;
  std::vector<float> momenta;
  std::map<std::string, double> metrics;
};

}  // namespace dlflow::test
