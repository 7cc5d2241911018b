#pragma once

#include "runtime/nn/network.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/nn/network_numbers.h"
#include "tests/unit/runtime/nn/random_tensors.h"

namespace dlflow::test {

/// One training step on `targets`, whose loss and gradients must be the reference's.
inline runtime::BatchResult step_as_the_reference(const Problem& p,
                                                  const std::vector<float>& targets) {
  using namespace runtime;
  const reference::Step expected =
      reference::train_step(p.model, p.weights, p.images, p.labels, targets);
  Network network(p.model, int64_t(p.labels.size()), Network::Mode::Training);
  const WeightLayout& layout = *network.layout();
  const HugeBuffer weights = load(layout, p.weights);
  HugeBuffer gradients(layout.size());
  const std::vector<float> images = to_floats(p.images.values);
  network.use_weights(weights.floats());
  const BatchResult result = network.forward(images, p.labels, targets);
  network.backward(gradients.floats(), 1);
  CHECK(result.loss_sum == Approx(expected.loss_sum).epsilon(1e-5));
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    const std::vector<double>& theirs = expected.gradients.at(layout.parameters()[i].name).values;
    CHECK(distance(layout.to_plain(gradients.floats(), i), theirs) < 2e-5);
  }
  return result;
}

}  // namespace dlflow::test
