#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/nn/weight_layout.h"

/// Numbers that are NaN or infinite: found in the step in which they appear, and named.
namespace dlflow::runtime {

/// The training has diverged: a loss or a weight is no number. The message says where that began.
class Diverged : public Error {
 public:
  using Error::Error;
};

/// When a rank's loss was no number for the first time.
struct Divergence {
  uint64_t step = 0;     ///< from 1
  std::string layer;     ///< the first with such a result; empty: none, it is the loss itself
  bool in_data = false;  ///< the samples of that step have such values already
};

/// Throws Diverged, naming the ranks whose share of the loss it is, if they know, and the step and
/// the layer in which it began. Collective, after `step` steps; `mine`: of this rank.
[[noreturn]] void fail_loss(Communicator& comm, float loss, const std::optional<Divergence>& mine,
                            uint64_t step);

/// Throws Diverged after an update that left a weight that is not finite: names the last parameter
/// with such a number in one of `gradients` of any rank, which is where the backward pass met it
/// first, or else the weight. Collective.
[[noreturn]] void fail_update(Communicator& comm, const WeightLayout& layout,
                              std::span<const std::span<const float>> gradients,
                              std::span<const float> weights, uint64_t step);

/// Throws Diverged if anything in `weights`, running statistics included, is not finite.
void require_finite(const WeightLayout& layout, std::span<const float> weights, uint64_t step);

}  // namespace dlflow::runtime
