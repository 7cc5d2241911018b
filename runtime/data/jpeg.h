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

/// Whether dlflow was built with libjpeg-turbo.
bool can_read_jpeg();

/// A part of a picture, reduced by the decoder.
struct DecodedPart {
  /// In the reduced picture, whose sides are the original's divided by `reduced_by`; may be larger
  /// than requested.
  CropBox box;
  uint32_t reduced_by = 1;
  size_t values_per_pixel = 1;  ///< 1 if grey; 4 in colour, where the last is unused
  std::vector<uint8_t> values;  ///< (box.height, box.width, values_per_pixel)
};

/// A baseline or progressive JPEG picture of 8 bits, grey or in colour. Construction reads only the
/// header.
class JpegReader {
 public:
  /// `content` must outlive this. Throws Error{Corrupt}, "`name`: reason", for other content, and
  /// if dlflow was built without libjpeg.
  JpegReader(std::string_view content, std::string name);
  ~JpegReader();

  const ImageShape& shape() const { return shape_; }

  /// Returns all pixels, (H, W, C). Throws Error{Corrupt} for a damaged file, even if libjpeg could
  /// read parts of it. Either this or read_part() may be called, once.
  std::vector<uint8_t> read_all();

  /// Decodes the pixels of `box`, which lies in the picture: the values of read_all() if
  /// `reduce_by` is 1. With 2, 4 or 8, the decoder averages as many pixels in each direction, which
  /// is faster. Rows below the box are not read. `part.values` is reused memory. Throws
  /// Error{Corrupt} like read_all(), for damage down to the end of the box.
  /// \param in_color  decodes to colour, else to grey, whatever the picture is
  void read_part(const CropBox& box, uint32_t reduce_by, bool in_color, DecodedPart& part);

 private:
  struct Decoder;
  [[noreturn]] void refuse() const;

  std::string name_;
  ImageShape shape_;
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace dlflow::runtime
