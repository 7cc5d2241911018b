#include "runtime/import/wide_png.h"

#include <vector>

#include "base/error.h"
#include "runtime/import/png_reader.h"

namespace dlflow::runtime {
namespace {

/// The colour that stands for transparent pixels becomes their opacity, too.
void to_wide_values(png_structp png) { png_set_expand_16(png); }

/// Big-endian (H, W, C) of 16 bits, the opacity last if there is one -> floats on black.
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

}  // namespace

Picture parse_wide_png(std::string_view content, const std::string& name) {
  PngReader reader(content);
  const auto refuse = [&] { refuse_picture(name, "is a damaged PNG file: " + reader.message()); };
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

}  // namespace dlflow::runtime
