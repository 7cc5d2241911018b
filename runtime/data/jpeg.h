#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/image_change.h"
#include "runtime/data/picture_size.h"

/// JPEG, by libjpeg-turbo, if dlflow was built with it.
namespace dlflow::runtime {

/// Whether it was.
bool can_read_jpeg();

/// A part of a picture, made smaller by the decoder.
struct DecodedPart {
  /// Of the smaller picture, whose sides are those of the whole one divided by `reduced_by`; it may
  /// be larger than what was asked for.
  CropBox box;
  uint32_t reduced_by = 1;
  size_t values_per_pixel = 1;  ///< 1 of a grey part; 4 of one in colour, and the last says nothing
  std::vector<uint8_t> values;  ///< (box.height, box.width, values_per_pixel)
};

/// A baseline or progressive JPEG picture of 8 bits, grey or in colour. Only its header has been
/// read.
class JpegReader {
 public:
  /// `content` must outlive this. Throws Error{Corrupt}, "`name`: reason", for anything else, and
  /// if dlflow was built without libjpeg.
  JpegReader(std::string_view content, std::string name);
  ~JpegReader();

  const ImageShape& shape() const { return shape_; }

  /// All of it, (H, W, C). Throws Error{Corrupt} for a damaged file, of which libjpeg would give
  /// the good part. Of this and read_part() only one may be called, and once.
  std::vector<uint8_t> read_all();

  /// The pixels of `box`, which lies in the picture: as read_all() has them if `reduce_by` is 1;
  /// with 2, 4 or 8 the decoder computes means of so many pixels each way, for less time. What
  /// lies below the box is not looked at. `part.values` is memory that is used again.
  /// \param in_color  a grey picture as one in colour, or the other way round
  /// Throws Error{Corrupt} as read_all(), of damage on the way to the box.
  void read_part(const CropBox& box, uint32_t reduce_by, bool in_color, DecodedPart& part);

 private:
  struct Decoder;
  [[noreturn]] void refuse() const;

  std::string name_;
  ImageShape shape_;
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace dlflow::runtime
