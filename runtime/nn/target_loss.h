#pragma once

#include <cstdint>
#include <span>

#include "runtime/nn/model.h"

/// The losses that compare scores with targets. Shape letters: B batch, T targets of a sample.
namespace dlflow::runtime {

/// The loss and the measures of a batch, over its samples; of each the mean over its targets.
struct TargetSums {
  double loss = 0;
  double squared_error = 0, absolute_error = 0;  ///< but of binary cross-entropy
  int64_t num_correct = 0;  ///< of binary cross-entropy: scores with the sign of their target
};

/// Compares `scores` (B, T) with `targets` (B, T) by a loss that has_targets(). Leaves in
/// `differences` (B, T) what target_loss_backward() takes: score - target; of binary cross-entropy,
/// probability - target. Adds in the order of memory, so the same numbers give the same bits.
TargetSums target_loss(LossKind loss, std::span<const float> scores, std::span<const float> targets,
                       int64_t num_targets, std::span<float> differences);

/// `gradient` (B, T) = scale * the gradient of the sum over all targets of the loss.
void target_loss_backward(LossKind loss, std::span<const float> differences, float scale,
                          std::span<float> gradient);

}  // namespace dlflow::runtime
