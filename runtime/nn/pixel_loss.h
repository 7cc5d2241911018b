#pragma once

#include <cstdint>
#include <span>

#include "runtime/nn/model.h"

/// Losses for one class per pixel. Shape letters: B batch, C classes, P pixels of a map.
namespace dlflow::runtime {

/// The loss of masks, for each sample over the pixels whose mask is not kIgnoredClass:
/// - cross-entropy: the mean of -log of the probability of the pixel's class, smoothed and weighted
///   as in PyTorch's cross_entropy with reduction="none";
/// - Dice: 1 - the weighted mean over classes of (2 I + 1) / (S + 1). I is the sum of the class's
///   probability on its own pixels; S is the sum on all pixels, plus the number of its own pixels.
///   Due to the 1, a class that is neither present nor predicted counts as correct.
/// A sample without such pixels has no loss.
/// Source: Milletari et al., 3DV 2016 (Dice); torch.nn.CrossEntropyLoss.
struct PixelLoss {
  bool has_cross_entropy = true, has_dice = false;  ///< the loss is the sum of both
  double smoothing = 0;                             ///< of cross-entropy
  std::span<const float> class_weights = {};        ///< (C); empty: all are 1
};

/// Scores or probabilities (B, C, P).
struct PixelScores {
  const float* numbers = nullptr;
  int64_t images = 0, classes = 0, pixels = 0;
};

/// The loss and the measures of a batch of masks, over its samples.
struct MaskSums {
  double loss = 0;
  int64_t num_correct = 0;  ///< pixels whose class has the highest score (the first in a tie)
  int64_t num_counted = 0;  ///< pixels that are not ignored
};

/// Leaves softmax(scores) over the classes of each pixel in `probabilities`. Single-threaded; each
/// sample's numbers are added in pixel order, so the same numbers give the same bits.
/// \param mask  (B, P) classes, or kIgnoredClass
MaskSums measure_pixels(const PixelLoss& loss, const PixelScores& scores, const float* mask,
                        float* probabilities);

/// `gradient` (B, C, P) = scale * the gradient of the loss; 0 where the mask is kIgnoredClass.
void pixel_loss_backward(const PixelLoss& loss, const PixelScores& probabilities, const float* mask,
                         float scale, float* gradient);

}  // namespace dlflow::runtime
