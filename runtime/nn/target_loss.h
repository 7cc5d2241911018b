#pragma once

#include <cstdint>
#include <span>

#include "runtime/nn/model.h"

/// Losses that compare scores with targets. Shape letters: B batch, T targets of a sample.
namespace dlflow::runtime {

/// The loss and the measures of a batch: sums over samples of the mean over their targets.
struct TargetSums {
  double loss = 0;
  double squared_error = 0, absolute_error = 0;  ///< except for binary cross-entropy
  int64_t num_correct = 0;  ///< for binary cross-entropy: scores with the sign of their target
};

/// Compares `scores` (B, T) with `targets` (B, T) by a loss that has_targets(). Leaves the input of
/// target_loss_backward() in `differences` (B, T): score - target, or for binary cross-entropy
/// probability - target. Adds in memory order, so the same numbers give the same bits.
TargetSums target_loss(LossKind loss, std::span<const float> scores, std::span<const float> targets,
                       int64_t num_targets, std::span<float> differences);

/// `gradient` (B, T) = scale * the gradient of the loss summed over all targets.
void target_loss_backward(LossKind loss, std::span<const float> differences, float scale,
                          std::span<float> gradient);

}  // namespace dlflow::runtime
