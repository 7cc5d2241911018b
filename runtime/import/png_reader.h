#pragma once

#include <png.h>

#include <string>
#include <string_view>

namespace dlflow::runtime {

/// libpng's reader for a file in memory. Reports errors by return values, because longjmp skips
/// destructors.
class PngReader {
 public:
  /// `content` must outlive this. Throws Error{Unavailable} if there is no memory.
  explicit PngReader(std::string_view content);
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader();

  /// False, with a message(), if the header is damaged or the picture exceeds the limits.
  bool read_header();

  /// Called after read_header(): `prepare` sets the conversion of values. It must not hold objects.
  bool transform(void (*prepare)(png_structp));

  /// Called after transform(): each of `rows` must have room for row_bytes().
  bool read_rows(png_bytepp rows);

  size_t row_bytes() const { return png_get_rowbytes(png_, info_); }
  uint32_t width() const { return png_get_image_width(png_, info_); }
  uint32_t height() const { return png_get_image_height(png_, info_); }
  uint32_t channels() const { return png_get_channels(png_, info_); }
  int color_type() const { return png_get_color_type(png_, info_); }
  int bit_depth() const { return png_get_bit_depth(png_, info_); }
  std::string message() const { return source_.message; }

 private:
  /// The unread part of the file, and the last error.
  struct Source {
    std::string_view rest;
    char message[128] = "";
  };

  static void read_bytes(png_structp png, png_bytep to, size_t count);
  [[noreturn]] static void give_up(png_structp png, png_const_charp message);

  Source source_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace dlflow::runtime
