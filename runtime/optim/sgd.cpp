#include "runtime/optim/sgd.h"

#include "base/error.h"
#include "base/vector_clones.h"

namespace dlflow::runtime {
namespace {

DLFLOW_VECTOR_CLONES
void update(float* __restrict weights, float* __restrict velocity,
            const float* __restrict gradients, size_t count, float momentum, float weight_decay,
            float learning_rate) {
  for (size_t i = 0; i < count; ++i) {
    const float d = gradients[i] + weight_decay * weights[i];
    const float v = momentum * velocity[i] + d;
    velocity[i] = v;
    weights[i] -= learning_rate * v;
  }
}

}  // namespace

Sgd::Sgd(size_t num_elements, SgdOptions options) : options_(options), velocity_(num_elements) {}

void Sgd::step(std::span<float> weights, std::span<const float> gradients, float learning_rate) {
  DLFLOW_CHECK(weights.size() == velocity_.size() && gradients.size() == velocity_.size());
  update(weights.data(), velocity_.data(), gradients.data(), velocity_.size(), options_.momentum,
         options_.weight_decay, learning_rate);
}

}  // namespace dlflow::runtime
