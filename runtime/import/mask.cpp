#include "runtime/import/mask.h"

#include <png.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/import/picture.h"
#include "runtime/import/png_reader.h"

namespace dlflow::runtime {
namespace {

/// One byte per value, as stored: applies neither palette nor scale.
void to_bytes(png_structp png) { png_set_packing(png); }

Mask parse_png_mask(std::string_view content, const std::string& name) {
  PngReader reader(content);
  const auto refuse = [&] { throw_corrupt(name, "is a damaged PNG file: " + reader.message()); };
  if (!reader.read_header()) refuse();
  const int color = reader.color_type();
  if (color != PNG_COLOR_TYPE_GRAY && color != PNG_COLOR_TYPE_PALETTE) {
    throw_corrupt(name,
                  "is in colour or has opacity; class numbers of a mask are grey values or indices "
                  "of a palette");
  }
  if (reader.bit_depth() > 8) throw_corrupt(name, "has 16 bits a value; a mask has 8 at most");
  Mask mask{reader.height(), reader.width(), {}};
  require_picture_size(mask.shape(), name);
  if (!reader.transform(to_bytes)) refuse();
  mask.classes.resize(mask.shape().num_values());
  std::vector<png_bytep> rows(mask.height);
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = mask.classes.data() + y * mask.width;
  if (!reader.read_rows(rows.data())) refuse();
  return mask;
}

Mask resized(const Mask& mask, PictureSize to) {
  Mask result{to.height, to.width, std::vector<uint8_t>(size_t(to.height) * to.width)};
  const auto nearest = [](uint32_t at, uint32_t from, uint32_t size) {
    return size_t((2 * uint64_t(at) + 1) * from / (2 * uint64_t(size)));
  };
  for (uint32_t y = 0; y < to.height; ++y) {
    const size_t row = nearest(y, mask.height, to.height) * mask.width;
    for (uint32_t x = 0; x < to.width; ++x) {
      result.classes[size_t(y) * to.width + x] =
          mask.classes[row + nearest(x, mask.width, to.width)];
    }
  }
  return result;
}

}  // namespace

bool is_mask(const std::filesystem::path& file) {
  return file.extension() == ".png" || file.extension() == ".pgm";
}

Mask parse_mask(std::string_view content, const std::string& name) {
  if (content.starts_with("\x89PNG")) return parse_png_mask(content, name);
  if (!content.starts_with("P5")) {
    throw_corrupt(name, "is not a mask: neither a PNG nor a binary PGM file");
  }
  Picture picture = parse_picture(content, name);
  return {picture.shape.height, picture.shape.width, std::move(picture.values)};
}

Mask reshape(Mask mask, const Reshaping& reshaping, const std::string& name) {
  if (const auto to = size_after_resizing(mask.shape(), reshaping)) {
    require_picture_size({1, to->height, to->width}, name);
    mask = resized(mask, *to);
  }
  if (!reshaping.crop) return mask;
  Picture cut = reshape(Picture{mask.shape(), std::move(mask.classes), {}},
                        Reshaping{{}, {}, reshaping.crop}, name);
  return {cut.shape.height, cut.shape.width, std::move(cut.values)};
}

std::optional<uint8_t> class_of(int64_t value, std::optional<int64_t> ignored) {
  if (value == ignored) return uint8_t(kNoClass);
  if (value < 0 || value > int64_t(kNoClass)) return std::nullopt;
  return uint8_t(value);
}

}  // namespace dlflow::runtime
