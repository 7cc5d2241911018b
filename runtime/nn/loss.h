#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/nn/kernels.h"
#include "runtime/nn/model.h"
#include "runtime/nn/pixel_loss.h"
#include "runtime/nn/row_kernels.h"

namespace dlflow::runtime {

/// The loss and the measures of one batch, over its samples.
struct BatchResult {
  double loss_sum = 0;  ///< per sample; for a sequence the mean over its targets, for texts the sum
  int64_t num_correct = 0;  ///< targets that have the highest score (the first in a tie)
  int64_t num_targets = 0;  ///< one per sample, predicted token, or pixel that counts; or 0
  int64_t num_in_top5 = 0;  ///< labels among the five highest scores; inference only
  double squared_error = 0, absolute_error = 0;  ///< sums of the samples' means

  void add(const BatchResult& other) {
    loss_sum += other.loss_sum;
    num_correct += other.num_correct;
    num_targets += other.num_targets;
    num_in_top5 += other.num_in_top5;
    squared_error += other.squared_error;
    absolute_error += other.absolute_error;
  }
};

/// The loss of a batch's scores. Softmax cross-entropy compares with one label per sample, with
/// shares of the classes, or each position with the token after it. Others are the mean squared
/// difference to the input, the losses of target_loss.h, and per pixel those of pixel_loss.h.
class Loss {
 public:
  Loss(const Model& model, int64_t batch);

  /// A number from 0 (none) to less than 1 (runtime/nn/kernels.h).
  void use_label_smoothing(double smoothing) { smoothing_ = smoothing; }

  /// One weight per class (runtime/nn/kernels.h); they must outlive their use. None by default.
  void use_class_weights(std::span<const float> weights) { class_weights_ = weights; }

  /// Sets the data that the next passes compare scores with; it must outlive them. `input` is the
  /// network's input. The shape of `targets` depends on the loss: (B, T); for softmax cross-entropy
  /// (B, classes) or empty; for masks (B, H * W). For texts of unequal length it is (B), the number
  /// of tokens of each: positions beyond them have no loss, and all others have equal weight in any
  /// text. Other losses ignore `targets`. Throws Error{InvalidInput} if a token is not in the
  /// model's vocabulary.
  void bind(std::span<const float> input, std::span<const uint32_t> labels,
            std::span<const float> targets);

  /// Number of labels among the five highest scores.
  int64_t in_top5(std::span<const float> scores) const;

  /// Leaves softmax(scores), the differences to the input, or the gradient itself, in
  /// `probabilities`, for gradient().
  BatchResult measure(std::span<const float> scores, std::span<float> probabilities);

  /// `gradient` = scale * the gradient of loss_sum.
  void gradient(std::span<const float> probabilities, float scale, std::span<float> gradient) const;

 private:
  void find_targets(std::span<const float> tokens, std::span<const float> lengths);
  PixelLoss pixel_loss() const;
  CrossEntropy cross_entropy() const;
  TokenTargets token_targets() const;

  const LossKind kind_;
  const int64_t batch_;
  const int64_t length_;   ///< positions of a sequence; 1 without any
  const int64_t classes_;  ///< classes or tokens
  const int64_t pixels_;   ///< of a map of scores; else 1
  const std::optional<int64_t> ignored_;
  double smoothing_ = 0;
  std::span<const float> class_weights_;
  std::span<const float> input_;
  std::span<const uint32_t> labels_;
  std::span<const float> compared_;  ///< targets, shares of classes, or masks; or none
  std::vector<uint32_t> targets_;    ///< per position: a token, or kNoTarget
  std::vector<float> shares_;        ///< weight of each position in its sample's loss
};

}  // namespace dlflow::runtime
