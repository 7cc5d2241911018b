#include "runtime/import/wide_png.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

/// The rest of a file, and the last mistake in it.
struct PngSource {
  std::string_view rest;
  char message[128] = "";
};

void read_bytes(png_structp png, png_bytep to, size_t count) {
  auto* const source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (count > source->rest.size()) png_error(png, "it ends too early");
  std::memcpy(to, source->rest.data(), count);
  source->rest.remove_prefix(count);
}

[[noreturn]] void give_up(png_structp png, png_const_charp message) {
  auto* const source = static_cast<PngSource*>(png_get_error_ptr(png));
  std::strncpy(source->message, message, sizeof(source->message) - 1);
  std::longjmp(png_jmpbuf(png), 1);
}

void ignore_warning(png_structp, png_const_charp) {}

/// libpng's reader, freed also when something is thrown.
struct WidePng {
  PngSource source;
  png_structp png = nullptr;
  png_infop info = nullptr;

  explicit WidePng(std::string_view content) : source{content, ""} {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, give_up, ignore_warning);
    if (png != nullptr) info = png_create_info_struct(png);
    if (info == nullptr) throw Error(Errc::Unavailable, "there is no memory for a PNG file");
  }
  WidePng(const WidePng&) = delete;
  WidePng& operator=(const WidePng&) = delete;
  ~WidePng() { png_destroy_read_struct(&png, &info, nullptr); }
};

/// False, with a message, if the header is damaged. longjmp passes trivial objects alone.
bool read_header(WidePng& reader) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_set_read_fn(reader.png, &reader.source, read_bytes);
  png_set_user_limits(reader.png, kMaxPictureSide, kMaxPictureSide);
  png_read_info(reader.png, reader.info);
  png_set_expand_16(reader.png);
  png_set_tRNS_to_alpha(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return true;
}

bool read_rows(WidePng& reader, png_bytepp rows) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_read_image(reader.png, rows);
  return true;
}

/// Big-endian (H, W, C) of 16 bits, the opacity last if there is one -> floats on black.
std::vector<float> to_floats(const std::vector<uint8_t>& bytes, uint32_t stored,
                             uint32_t channels) {
  const auto value = [&](size_t i) { return float(bytes[2 * i] << 8 | bytes[2 * i + 1]); };
  const size_t pixels = bytes.size() / (2 * stored);
  std::vector<float> floats(pixels * channels);
  for (size_t i = 0; i < pixels; ++i) {
    const float opacity = stored > channels ? value(i * stored + channels) / 65535 : 1;
    for (uint32_t c = 0; c < channels; ++c) {
      floats[i * channels + c] = value(i * stored + c) / 257 * opacity;
    }
  }
  return floats;
}

}  // namespace

Picture parse_wide_png(std::string_view content, const std::string& name) {
  WidePng reader(content);
  const auto refuse = [&] {
    refuse_picture(name, std::string("is a damaged PNG file: ") + reader.source.message);
  };
  if (!read_header(reader)) refuse();
  const uint32_t stored = png_get_channels(reader.png, reader.info);
  Picture picture;
  picture.shape = {stored > 2 ? 3u : 1u, png_get_image_height(reader.png, reader.info),
                   png_get_image_width(reader.png, reader.info)};
  require_picture_size(picture.shape, name);
  const size_t row_bytes = size_t(picture.shape.width) * stored * 2;
  if (png_get_rowbytes(reader.png, reader.info) != row_bytes) {
    refuse_picture(name, "has not 16 bits a value");
  }
  std::vector<uint8_t> bytes(row_bytes * picture.shape.height);
  std::vector<png_bytep> rows(picture.shape.height);
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = bytes.data() + y * row_bytes;
  if (!read_rows(reader, rows.data())) refuse();
  picture.floats =
      channels_first(picture.shape, to_floats(bytes, stored, picture.shape.channels).data());
  return picture;
}

}  // namespace dlflow::runtime
