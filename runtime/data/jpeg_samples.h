#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/image_change.h"
#include "runtime/data/jpeg.h"

/// Samples made from JPEG files of a data set: decoded, and resized to one shape.
namespace dlflow::runtime {

/// One direction: pixel i of the output covers [from + i * scale, from + (i + 1) * scale) of the
/// picture. Nothing outside [begin, end) is read.
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

/// Returns the view of `box` in a picture, resized to `shape`.
PictureView view_of(const CropBox& box, const ImageShape& shape);

/// Returns the view of the centre, (H, W) of `shape`, of a picture that is reshaped first. Throws
/// Error{Corrupt}, "`name`: reason", if the picture is too small.
PictureView view_of(const ImageShape& picture, const Reshaping& reshaping, const ImageShape& shape,
                    const std::string& name);

/// Returns by which power of two, 1 to 8, the decoder reduces a picture: the largest that leaves at
/// least as many pixels as the view needs.
uint32_t reduction_of(const PictureView& view);

/// Makes samples, and reuses temporary memory. Must be used by one thread at a time.
class JpegSamples {
 public:
  /// Writes the view of `picture` to `output`, (C, H, W), mirrored left-right if `flip`, converted
  /// to 1 or 3 `channels`. Resizes by the triangle filter over all contributing pixels, as Pillow's
  /// BILINEAR; same bits on every CPU. Throws Error{Corrupt} like JpegReader::read_part.
  void write(JpegReader& picture, const PictureView& view, uint32_t channels, bool flip,
             uint8_t* output);

 private:
  DecodedPart part_;
  std::vector<float> row_;  // a row of sums
};

/// Writes the sample of a picture of `dataset` without augmentation. Throws Error{Corrupt},
/// "`name`: reason".
void write_as_reshaped(const Dataset& dataset, std::span<const uint8_t> jpeg,
                       const std::string& name, JpegSamples& samples, uint8_t* output);

}  // namespace dlflow::runtime
