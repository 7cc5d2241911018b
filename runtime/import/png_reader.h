#pragma once

#include <png.h>

#include <string>
#include <string_view>

namespace dlflow::runtime {

/// libpng's reader of a file in memory. Its errors are told by return values: longjmp passes
/// trivial objects alone.
class PngReader {
 public:
  /// `content` must outlive this. Throws Error{Unavailable} if there is no memory.
  explicit PngReader(std::string_view content);
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader();

  /// False, with a message(), if the header is damaged or of a picture beyond the limits.
  bool read_header();

  /// After read_header(): what is to be made of the values, by `prepare`, which holds no objects.
  bool transform(void (*prepare)(png_structp));

  /// After transform(): each of `rows` has row_bytes().
  bool read_rows(png_bytepp rows);

  size_t row_bytes() const { return png_get_rowbytes(png_, info_); }
  uint32_t width() const { return png_get_image_width(png_, info_); }
  uint32_t height() const { return png_get_image_height(png_, info_); }
  uint32_t channels() const { return png_get_channels(png_, info_); }
  int color_type() const { return png_get_color_type(png_, info_); }
  int bit_depth() const { return png_get_bit_depth(png_, info_); }
  std::string message() const { return source_.message; }

 private:
  /// The rest of the file, and the last mistake in it.
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
