#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/nn/weight_layout.h"

/// Detects NaN and infinite numbers in the step in which they appear, and reports where they began.
namespace dlflow::runtime {

/// The training has diverged: a loss or a weight is NaN or infinite. The message names the cause.
class Diverged : public Error {
 public:
  using Error::Error;
};

/// The first step in which a rank's loss was NaN or infinite.
struct Divergence {
  uint64_t step = 0;     ///< from 1
  std::string layer;     ///< the first layer with such a result; empty: only the loss itself
  bool in_data = false;  ///< the samples of that step already hold such values
};

/// Throws Diverged, naming the step and layer where the divergence began, and the ranks whose loss
/// diverged, if known. Collective, after `step` steps; `mine`: this rank's divergence.
[[noreturn]] void fail_loss(Communicator& comm, float loss, const std::optional<Divergence>& mine,
                            uint64_t step);

/// Throws Diverged after an update that left a weight NaN or infinite. Names the last parameter
/// with such a value in one of `gradients` of any rank, which is the first that the backward pass
/// reached, or otherwise the weight. Collective.
[[noreturn]] void fail_update(Communicator& comm, const WeightLayout& layout,
                              std::span<const std::span<const float>> gradients,
                              std::span<const float> weights, uint64_t step);

/// Throws Diverged if a value in `weights`, running statistics included, is not finite.
void require_finite(const WeightLayout& layout, std::span<const float> weights, uint64_t step);

}  // namespace dlflow::runtime
