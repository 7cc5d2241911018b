#pragma once

#include <cstdint>
#include <span>

#include "runtime/nn/model.h"

/// The losses of a class per pixel. Shape letters: B batch, C classes, P pixels of a map.
namespace dlflow::runtime {

/// The loss of masks. Of each sample, over the pixels whose mask is not kIgnoredClass:
/// - cross-entropy: the mean of -log of the probability of the pixel's class, smoothed and weighted
///   as in PyTorch's cross_entropy with reduction="none";
/// - Dice: 1 - the mean over classes, weighted, of (2 I + 1) / (S + 1), where I adds up the
///   probabilities of the class on its own pixels, and S those on all and the class's pixels. The 1
///   makes right of a class that is nowhere and that nothing is taken for.
/// A sample without any such pixel has no loss.
/// Source: Milletari et al., 3DV 2016 (Dice); torch.nn.CrossEntropyLoss.
struct PixelLoss {
  bool has_cross_entropy = true, has_dice = false;  ///< the loss is the sum
  double smoothing = 0;                             ///< of cross-entropy
  std::span<const float> class_weights = {};        ///< (C); none: all are 1
};

/// Scores or probabilities (B, C, P).
struct PixelScores {
  const float* numbers = nullptr;
  int64_t images = 0, classes = 0, pixels = 0;
};

/// The loss and the measures of a batch of masks, over its samples.
struct MaskSums {
  double loss = 0;
  int64_t num_correct = 0;  ///< pixels whose class has the highest score (the first of equals)
  int64_t num_counted = 0;  ///< pixels that are not ignored
};

/// Leaves softmax(scores) over the classes of each pixel in `probabilities`. One thread; each
/// sample's numbers are added in the order of pixels, so the same numbers give the same bits.
/// \param mask  (B, P) classes, or kIgnoredClass
MaskSums measure_pixels(const PixelLoss& loss, const PixelScores& scores, const float* mask,
                        float* probabilities);

/// `gradient` (B, C, P) = scale * the gradient of the loss; 0 where the mask is kIgnoredClass.
void pixel_loss_backward(const PixelLoss& loss, const PixelScores& probabilities, const float* mask,
                         float scale, float* gradient);

}  // namespace dlflow::runtime
