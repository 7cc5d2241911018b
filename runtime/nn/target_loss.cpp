#include "runtime/nn/target_loss.h"

#include <algorithm>
#include <cmath>

namespace dlflow::runtime {
namespace {

/// The loss of a difference to a target.
double difference_loss(LossKind loss, double difference) {
  const double size = std::abs(difference);
  if (loss == LossKind::MeanSquaredError) return size * size;
  if (loss == LossKind::AbsoluteError) return size;
  return size <= 1 ? size * size / 2 : size - 0.5;
}

/// -log of the probability of `target`, given a logit. log1p(exp(-|x|)) never overflows.
double logit_loss(double score, double target) {
  return std::max(score, 0.0) - score * target + std::log1p(std::exp(-std::abs(score)));
}

float slope(LossKind loss, float difference) {
  if (loss == LossKind::MeanSquaredError) return 2 * difference;
  if (loss == LossKind::AbsoluteError) return float(difference > 0) - float(difference < 0);
  if (loss == LossKind::Huber) return std::clamp(difference, -1.0f, 1.0f);
  return difference;
}

}  // namespace

TargetSums target_loss(LossKind loss, std::span<const float> scores, std::span<const float> targets,
                       int64_t num_targets, std::span<float> differences) {
  const bool binary = loss == LossKind::BinaryCrossEntropy;
  TargetSums sums;
  for (size_t i = 0; i < scores.size(); ++i) {
    const double score = double(scores[i]), target = double(targets[i]);
    if (binary) {
      sums.loss += logit_loss(score, target);
      differences[i] = float(1 / (1 + std::exp(-score)) - target);
      sums.num_correct += (score > 0) == (target > 0) ? 1 : 0;
      continue;
    }
    const double difference = score - target;
    sums.loss += difference_loss(loss, difference);
    sums.squared_error += difference * difference;
    sums.absolute_error += std::abs(difference);
    differences[i] = float(difference);
  }
  for (double* sum : {&sums.loss, &sums.squared_error, &sums.absolute_error}) {
    *sum /= double(num_targets);
  }
  return sums;
}

void target_loss_backward(LossKind loss, std::span<const float> differences, float scale,
                          std::span<float> gradient) {
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = scale * slope(loss, differences[i]);
}

}  // namespace dlflow::runtime
