#pragma once

#include <cstdint>

#include "runtime/data/image_change.h"

namespace dlflow::runtime {

/// Random changes to training images.
struct Augmentation {
  uint32_t crop_padding = 0;  ///< shift by up to this many pixels each way; black moves in
  bool flip = false;          ///< mirror left-right with probability 1/2

  /// Smallest share of the area for a random crop with sides 3:4 to 4:3, which is then enlarged; 0:
  /// no crop. Source: Szegedy et al., CVPR 2015, section 6; the draws are those of torchvision's
  /// RandomResizedCrop.
  double resized_crop = 0;
  double rotate = 0;  ///< up to this many degrees in either direction

  /// Ranges from 1 - x to 1 + x for the factors of ImageChange.
  double brightness = 0, contrast = 0, saturation = 0;

  /// Side of a square that is set to the mean colour; its centre is anywhere in the image. Source:
  /// DeVries and Taylor, arXiv 1708.04552.
  uint32_t cutout = 0;

  /// Mixes each image with another one: blends them with a share of Beta(x, x), or pastes a box of
  /// that share of the area. x is 0.05 to 1; 0: none. If both are set, each image gets one of them.
  double mixup = 0, cutmix = 0;

  bool mixes() const { return mixup > 0 || cutmix > 0; }
  bool operator==(const Augmentation&) const = default;
};

/// Draws the change for (seed, epoch, sample), the same on any rank and thread, at any time.
/// `shape`: of the image.
ImageChange draw_change(const Augmentation& augmentation, const ImageShape& shape, uint64_t seed,
                        uint64_t epoch, uint32_t sample);

/// The same for a picture that becomes an image of `shape`; the crop is a part of the picture.
ImageChange draw_change(const Augmentation& augmentation, const ImageShape& shape,
                        const ImageShape& picture, uint64_t seed, uint64_t epoch, uint32_t sample);

}  // namespace dlflow::runtime
