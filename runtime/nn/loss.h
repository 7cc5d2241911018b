#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/nn/model.h"
#include "runtime/nn/pixel_loss.h"

namespace dlflow::runtime {

/// The loss and the measures of one batch, over its samples.
struct BatchResult {
  double loss_sum =
      0;  ///< one per sample: of a sequence the mean over its targets, of texts the sum
  int64_t num_correct = 0;  ///< targets that have the highest score (the first of equals)
  int64_t num_targets = 0;  ///< one per sample, token to foretell, or pixel that counts; or none
  int64_t num_in_top5 = 0;  ///< labels among the five highest scores; of inference alone
  double squared_error = 0, absolute_error = 0;  ///< of targets, per sample the mean over them

  void add(const BatchResult& other) {
    loss_sum += other.loss_sum;
    num_correct += other.num_correct;
    num_targets += other.num_targets;
    num_in_top5 += other.num_in_top5;
    squared_error += other.squared_error;
    absolute_error += other.absolute_error;
  }
};

/// The loss of a batch's scores: softmax cross-entropy against one label per sample, or against the
/// share that each class has in it, or of each
/// position against the token after it; the mean squared difference to the input; that to the
/// targets of a sample by one of the losses of target_loss.h; or of each pixel by pixel_loss.h.
class Loss {
 public:
  Loss(const Model& model, int64_t batch);

  /// From 0 (none) to less than 1 (runtime/nn/kernels.h).
  void use_label_smoothing(double smoothing) { smoothing_ = smoothing; }

  /// One for each class (runtime/nn/kernels.h), which must stay; none unless given.
  void use_class_weights(std::span<const float> weights) { class_weights_ = weights; }

  /// What the next passes compare scores with; both must stay until then. `input` is what the
  /// network reads, `targets` are (B, T); of softmax cross-entropy (B, classes), or none; masks are
  /// (B, H * W). Of texts of unequal length they are (B), the number of tokens of each: what stands
  /// behind them has no loss, and all others count as much, whatever text they are in. Other losses
  /// do not look at them. Throws Error{InvalidInput} if a token is none of
  /// the model's.
  void bind(std::span<const float> input, std::span<const uint32_t> labels,
            std::span<const float> targets);

  /// Labels among the five highest scores.
  int64_t in_top5(std::span<const float> scores) const;

  /// Leaves softmax(scores), or the differences to the input, or the gradient itself, in
  /// `probabilities`, for gradient().
  BatchResult measure(std::span<const float> scores, std::span<float> probabilities);

  /// `gradient` = scale * the gradient of loss_sum.
  void gradient(std::span<const float> probabilities, float scale, std::span<float> gradient) const;

 private:
  void find_targets(std::span<const float> tokens, std::span<const float> lengths);
  PixelLoss pixel_loss() const;

  const LossKind kind_;
  const int64_t batch_;
  const int64_t length_;   ///< positions of a sequence; 1 without any
  const int64_t classes_;  ///< or tokens
  const int64_t pixels_;   ///< of a map of scores; else 1
  const std::optional<int64_t> ignored_;
  double smoothing_ = 0;
  std::span<const float> class_weights_;
  std::span<const float> input_;
  std::span<const uint32_t> labels_;
  std::span<const float> compared_;  ///< targets, shares of classes, or masks; or none
  std::vector<uint32_t> targets_;    ///< of each position: a token, or kNoTarget
  std::vector<float> shares_;        ///< of each position in its sample's loss
};

}  // namespace dlflow::runtime
