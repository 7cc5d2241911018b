#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/image_change.h"
#include "runtime/data/jpeg.h"

/// Samples of pictures that a data set keeps as JPEG files: decoded, and resized to one shape.
namespace dlflow::runtime {

/// One direction: the output's pixel i covers [from + i * scale, from + (i + 1) * scale) of the
/// picture, of which nothing outside [begin, end) is read.
struct PictureAxis {
  double from = 0, scale = 1;
  uint32_t begin = 0, end = 0, count = 0;
};

/// The part of a picture that becomes a sample.
struct PictureView {
  PictureAxis across, down;

  CropBox box() const {
    return {down.begin, across.begin, down.end - down.begin, across.end - across.begin};
  }
};

/// Of `box` in a picture, enlarged or made smaller to `shape`.
PictureView view_of(const CropBox& box, const ImageShape& shape);

/// Of the middle, (H, W) as `shape` says, of the picture that is reshaped first.
/// Throws Error{Corrupt}, "`name`: reason", if the picture is too small.
PictureView view_of(const ImageShape& picture, const Reshaping& reshaping, const ImageShape& shape,
                    const std::string& name);

/// The power of two by which the decoder makes a picture smaller, 1 to 8: the largest that leaves
/// as many pixels as the view wants.
uint32_t reduction_of(const PictureView& view);

/// Makes samples, and keeps the memory that they take on the way. One thread uses it.
class JpegSamples {
 public:
  /// Writes the view of `picture` to `output`, (C, H, W), mirrored left-right if `flip`. Grey
  /// pictures become as many channels as `channels`, 1 or 3, and so do those in colour. Resizes by
  /// the triangle filter, which covers all pixels that become one, as Pillow's BILINEAR; the same
  /// bits on every CPU. Throws Error{Corrupt} as JpegReader::read_part.
  void write(JpegReader& picture, const PictureView& view, uint32_t channels, bool flip,
             uint8_t* output);

 private:
  DecodedPart part_;
  std::vector<float> row_;  // of sums
};

/// The sample of a picture of `dataset` that is not changed. Throws Error{Corrupt}, "`name`:
/// reason".
void write_as_reshaped(const Dataset& dataset, std::span<const uint8_t> jpeg,
                       const std::string& name, JpegSamples& samples, uint8_t* output);

}  // namespace dlflow::runtime
