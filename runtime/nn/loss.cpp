#include "runtime/nn/loss.h"

#include <string>

#include "base/error.h"
#include "runtime/nn/target_loss.h"

namespace dlflow::runtime {

Loss::Loss(const Model& model, int64_t batch)
    : kind_(model.loss),
      batch_(batch),
      length_(model.loss == LossKind::NextToken ? model.input[0] : 1),
      classes_(model.num_classes()),
      pixels_(has_masks(model.loss) ? model.num_scores() / classes_ : 1),
      ignored_(model.ignored_token) {}

void Loss::bind(std::span<const float> input, std::span<const uint32_t> labels,
                std::span<const float> targets) {
  input_ = input;
  labels_ = labels;
  const bool may_have_shares = kind_ == LossKind::SoftmaxCrossEntropy && !targets.empty();
  if (has_masks(kind_)) {
    DLFLOW_CHECK(int64_t(targets.size()) == batch_ * pixels_);
    compared_ = targets;
  } else if (has_targets(kind_) || may_have_shares) {
    DLFLOW_CHECK(int64_t(targets.size()) == batch_ * classes_);
    compared_ = targets;
  }
  if (kind_ == LossKind::NextToken) find_targets(input, targets);
}

/// The last position of a sequence has no target. The targets of a sample have equal shares of its
/// loss; in texts, which have `lengths`, each target counts as one.
void Loss::find_targets(std::span<const float> tokens, std::span<const float> lengths) {
  DLFLOW_CHECK(lengths.empty() || int64_t(lengths.size()) == batch_);
  targets_.assign(size_t(batch_ * length_), kNoTarget);
  shares_.assign(targets_.size(), 0.0f);
  for (int64_t b = 0; b < batch_; ++b) {
    const int64_t length = lengths.empty() ? length_ : int64_t(lengths[size_t(b)]);
    DLFLOW_CHECK(length > 0 && length <= length_);
    const size_t first = size_t(b * length_), last = first + size_t(length) - 1;
    int64_t count = 0;
    for (size_t i = first; i < last; ++i) {
      const auto token = int64_t(tokens[i + 1]);
      if (token < 0 || token >= classes_) {
        throw Error(Errc::InvalidInput, "the data has the token " + std::to_string(token) +
                                            ", but the network gives scores of only " +
                                            std::to_string(classes_) + " tokens");
      }
      if (token == ignored_) continue;
      targets_[i] = uint32_t(token);
      ++count;
    }
    const float share = !lengths.empty() ? 1 : count > 0 ? 1 / float(count) : 0;
    for (size_t i = first; i < last; ++i) shares_[i] = targets_[i] == kNoTarget ? 0 : share;
  }
}

PixelLoss Loss::pixel_loss() const {
  return {kind_ != LossKind::Dice, kind_ != LossKind::PixelCrossEntropy, smoothing_,
          class_weights_};
}

CrossEntropy Loss::cross_entropy() const { return {size_t(classes_), smoothing_, class_weights_}; }

TokenTargets Loss::token_targets() const { return {targets_, shares_, smoothing_}; }

BatchResult Loss::measure(std::span<const float> scores, std::span<float> probabilities) {
  if (kind_ == LossKind::SoftmaxCrossEntropy) {
    const LossSums sums =
        compared_.empty()
            ? softmax_cross_entropy(cross_entropy(), scores, labels_, probabilities)
            : soft_cross_entropy(cross_entropy(), scores, labels_, compared_, probabilities);
    return {sums.loss, sums.num_correct, batch_, 0};
  }
  if (kind_ == LossKind::Reconstruction) {
    double sum = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      probabilities[i] = scores[i] - input_[i];
      sum += double(probabilities[i]) * double(probabilities[i]);
    }
    return {sum * double(batch_) / double(scores.size()), 0, 0, 0};
  }
  if (has_masks(kind_)) {
    const MaskSums sums = measure_pixels(pixel_loss(), {scores.data(), batch_, classes_, pixels_},
                                         compared_.data(), probabilities.data());
    return {sums.loss, sums.num_correct, sums.num_counted, 0};
  }
  if (has_targets(kind_)) {
    const TargetSums sums = target_loss(kind_, scores, compared_, classes_, probabilities);
    const int64_t answers = kind_ == LossKind::BinaryCrossEntropy ? int64_t(scores.size()) : 0;
    return {sums.loss, sums.num_correct, answers, 0, sums.squared_error, sums.absolute_error};
  }
  const TokenSums sums = token_cross_entropy({scores.data(), int64_t(targets_.size()), classes_},
                                             token_targets(), probabilities.data());
  return {sums.loss, sums.num_correct, sums.num_targets, 0};
}

int64_t Loss::in_top5(std::span<const float> scores) const {
  return kind_ == LossKind::SoftmaxCrossEntropy ? num_in_top5(scores, labels_) : 0;
}

void Loss::gradient(std::span<const float> probabilities, float scale,
                    std::span<float> gradient) const {
  if (kind_ == LossKind::SoftmaxCrossEntropy && !compared_.empty()) {
    return soft_cross_entropy_backward(cross_entropy(), probabilities, compared_, scale, gradient);
  }
  if (kind_ == LossKind::SoftmaxCrossEntropy) {
    return softmax_cross_entropy_backward(cross_entropy(), probabilities, labels_, scale, gradient);
  }
  if (kind_ == LossKind::Reconstruction) {
    const float factor = 2 * scale * float(batch_) / float(gradient.size());
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = factor * probabilities[i];
    return;
  }
  if (has_masks(kind_)) {
    return pixel_loss_backward(pixel_loss(), {probabilities.data(), batch_, classes_, pixels_},
                               compared_.data(), scale, gradient.data());
  }
  if (has_targets(kind_)) {
    return target_loss_backward(kind_, probabilities, scale / float(classes_), gradient);
  }
  token_cross_entropy_backward({probabilities.data(), int64_t(targets_.size()), classes_},
                               token_targets(), scale, gradient.data());
}

}  // namespace dlflow::runtime
