#include "runtime/import/picture.h"

#include <fmt/core.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "runtime/data/jpeg.h"
#include "runtime/import/png_reader.h"

namespace dlflow::runtime {
namespace {

/// Expands values to 16 bits, and a colour that marks transparent pixels to opacity.
void to_wide_values(png_structp png) { png_set_expand_16(png); }

/// Converts big-endian (H, W, C) of 16 bits, with an optional opacity last, to floats on black.
std::vector<float> to_floats(const std::vector<uint8_t>& bytes, uint32_t stored,
                             uint32_t channels) {
  const auto value = [&](size_t i) { return float(bytes[2 * i] << 8 | bytes[2 * i + 1]); };
  const size_t pixels = bytes.size() / (size_t{2} * stored);
  std::vector<float> floats(pixels * channels);
  for (size_t i = 0; i < pixels; ++i) {
    const float opacity = stored > channels ? value(i * stored + channels) / 65535 : 1;
    for (uint32_t c = 0; c < channels; ++c) {
      floats[i * channels + c] = value(i * stored + c) / 257 * opacity;
    }
  }
  return floats;
}

/// Reads a PNG file of 16 bits per value, as stored: applies no gamma. Throws Error{Corrupt},
/// "`name`: reason".
Picture parse_wide_png(std::string_view content, const std::string& name) {
  PngReader reader(content);
  const auto refuse = [&] { throw_corrupt(name, "is a damaged PNG file: " + reader.message()); };
  if (!reader.read_header() || !reader.transform(to_wide_values)) refuse();
  const uint32_t stored = reader.channels();
  Picture picture;
  picture.shape = {stored > 2 ? 3u : 1u, reader.height(), reader.width()};
  require_picture_size(picture.shape, name);
  const size_t row_bytes = size_t(picture.shape.width) * stored * 2;
  DLFLOW_CHECK(reader.row_bytes() == row_bytes);
  std::vector<uint8_t> bytes(row_bytes * picture.shape.height);
  std::vector<png_bytep> rows(picture.shape.height);
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = bytes.data() + y * row_bytes;
  if (!reader.read_rows(rows.data())) refuse();
  picture.floats =
      channels_first(picture.shape, to_floats(bytes, stored, picture.shape.channels).data());
  return picture;
}

/// libpng's image, which is freed on exceptions, too.
struct Png {
  png_image image{};
  Png() { image.version = PNG_IMAGE_VERSION; }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;
  ~Png() { png_image_free(&image); }
};

/// Converts (H, W, C + 1) with the opacity last to (H, W, C) on black.
void flatten(std::vector<uint8_t>& values, uint32_t channels) {
  const size_t pixels = values.size() / (channels + 1);
  for (size_t i = 0; i < pixels; ++i) {
    const uint32_t opacity = values[i * (channels + 1) + channels];
    for (uint32_t c = 0; c < channels; ++c) {
      values[i * channels + c] = uint8_t((values[i * (channels + 1) + c] * opacity + 127) / 255);
    }
  }
  values.resize(pixels * channels);
}

Picture parse_jpeg(std::string_view content, const std::string& name) {
  JpegReader reader(content, name);
  const std::vector<uint8_t> values = reader.read_all();
  return {reader.shape(), channels_first(reader.shape(), values.data()), {}};
}

Picture parse_png(std::string_view content, const std::string& name) {
  Png png;
  if (png_image_begin_read_from_memory(&png.image, content.data(), content.size()) == 0) {
    throw_corrupt(name, std::string("is a damaged PNG file: ") + png.image.message);
  }
  const auto has = [&](png_uint_32 flag) { return (png.image.format & flag) != 0; };
  Picture picture;
  picture.shape = {has(PNG_FORMAT_FLAG_COLOR) ? 3u : 1u, png.image.height, png.image.width};
  require_picture_size(picture.shape, name);
  if (has(PNG_FORMAT_FLAG_LINEAR)) return parse_wide_png(content, name);
  const bool is_transparent = has(PNG_FORMAT_FLAG_ALPHA);
  png.image.format = (picture.shape.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY) |
                     (is_transparent ? PNG_FORMAT_FLAG_ALPHA : 0);
  std::vector<uint8_t> values(PNG_IMAGE_SIZE(png.image));
  if (png_image_finish_read(&png.image, nullptr, values.data(), 0, nullptr) == 0) {
    throw_corrupt(name, std::string("is a damaged PNG file: ") + png.image.message);
  }
  if (is_transparent) flatten(values, picture.shape.channels);
  picture.values = channels_first(picture.shape, values.data());
  return picture;
}

/// Returns the next number of a PNM header, after white space and comments.
uint32_t next_number(std::string_view& content, const std::string& name) {
  while (!content.empty() && (std::isspace(uint8_t(content[0])) != 0 || content[0] == '#')) {
    const size_t skipped = content[0] == '#' ? content.find('\n') : 0;
    content.remove_prefix(
        std::min(content.size(), skipped == content.npos ? skipped : skipped + 1));
  }
  uint32_t number = 0;
  const auto [end, error] =
      std::from_chars(content.data(), content.data() + content.size(), number);
  if (error != std::errc()) throw_corrupt(name, "has no header of a PGM or PPM file");
  content.remove_prefix(size_t(end - content.data()));
  return number;
}

Picture parse_pnm(std::string_view content, const std::string& name) {
  Picture picture;
  picture.shape.channels = content[1] == '6' ? 3 : 1;
  content.remove_prefix(2);
  picture.shape.width = next_number(content, name);
  picture.shape.height = next_number(content, name);
  if (next_number(content, name) != 255) throw_corrupt(name, "does not have 8 bits per value");
  require_picture_size(picture.shape, name);
  if (content.size() != picture.shape.num_values() + 1) {  // a single space ends the header
    throw_corrupt(
        name, fmt::format("has {} bytes of pixels, but its header declares {}",
                          content.empty() ? 0 : content.size() - 1, picture.shape.num_values()));
  }
  picture.values =
      channels_first(picture.shape, reinterpret_cast<const uint8_t*>(content.data()) + 1);
  return picture;
}

}  // namespace

bool is_picture(const std::filesystem::path& file) {
  std::string ending = file.extension().string();
  for (char& c : ending) c = char(std::tolower(uint8_t(c)));
  constexpr std::array<std::string_view, 6> kEndings = {".png", ".pgm", ".ppm",
                                                        ".pnm", ".jpg", ".jpeg"};
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

Picture parse_picture(std::string_view content, const std::string& name) {
  if (content.starts_with("\x89PNG")) return parse_png(content, name);
  if (content.starts_with("P5") || content.starts_with("P6")) return parse_pnm(content, name);
  if (content.starts_with("\xff\xd8\xff")) return parse_jpeg(content, name);
  throw_corrupt(name, "is neither a JPEG, a PNG nor a binary PGM or PPM file");
}

}  // namespace dlflow::runtime
