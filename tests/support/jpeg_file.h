#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#ifdef DLFLOW_JPEG
#include <jpeglib.h>
#endif

namespace dlflow::test {

struct JpegFile {
  runtime::ImageShape shape;    ///< 4 channels: CMYK
  std::vector<uint8_t> values;  ///< (H, W, C)
  bool progressive = false;
  int quality = 95;
};

/// Empty without libjpeg.
inline std::string jpeg_file([[maybe_unused]] const JpegFile& picture) {
#ifdef DLFLOW_JPEG
  const runtime::ImageShape& shape = picture.shape;
  jpeg_compress_struct file{};
  jpeg_error_mgr errors{};
  file.err = jpeg_std_error(&errors);
  jpeg_create_compress(&file);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&file, &bytes, &size);
  file.image_width = shape.width;
  file.image_height = shape.height;
  file.input_components = int(shape.channels);
  file.in_color_space = shape.channels == 1   ? JCS_GRAYSCALE
                        : shape.channels == 3 ? JCS_RGB
                                              : JCS_CMYK;
  jpeg_set_defaults(&file);
  jpeg_set_quality(&file, picture.quality, TRUE);
  if (picture.progressive) jpeg_simple_progression(&file);
  jpeg_start_compress(&file, TRUE);
  std::vector<uint8_t> values = picture.values;
  const size_t row = size_t(shape.width) * shape.channels;
  while (file.next_scanline < shape.height) {
    JSAMPROW pointer = values.data() + file.next_scanline * row;
    jpeg_write_scanlines(&file, &pointer, 1);
  }
  jpeg_finish_compress(&file);
  std::string content(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&file);
  std::free(bytes);
  return content;
#else
  return "";
#endif
}

/// Colours that vary over the picture and with `number`.
inline JpegFile scenery(uint32_t width, uint32_t height, uint32_t channels = 3,
                        uint32_t number = 0) {
  JpegFile picture{{channels, height, width}, {}};
  for (uint32_t y = 0; y < height; ++y) {
    for (uint32_t x = 0; x < width; ++x) {
      for (uint32_t c = 0; c < channels; ++c) {
        const uint32_t slope = (3 * x + 2 * y + 85 * c + 31 * number) % 510;
        const uint32_t stripes = (x / 7 + y / 5 + c) % 3 == 0 ? 40 : 0;
        picture.values.push_back(uint8_t((slope < 255 ? slope : 510 - slope) / 2 + stripes));
      }
    }
  }
  return picture;
}

}  // namespace dlflow::test
