#include "runtime/data/idx.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace dlflow::runtime {
namespace {

constexpr uint8_t kUnsignedBytes = 0x08;
constexpr unsigned kMaxDimensions = 4;

uint32_t big_endian(std::string_view content, size_t offset) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | uint8_t(content[offset + i]);
  return value;
}

/// Returns the header's dimensions. Throws unless the values are unsigned bytes.
std::vector<uint32_t> parse_header(std::string_view content, const std::string& name) {
  if (content.starts_with("\x1f\x8b")) {
    throw_corrupt(name, "is still compressed; unpack it, in a stage step with `unpack: gzip`");
  }
  if (content.size() < 4 || content[0] != 0 || content[1] != 0) {
    throw_corrupt(name, "is not an IDX file: it does not begin with two zero bytes");
  }
  if (uint8_t(content[2]) != kUnsignedBytes) {
    throw_corrupt(name, fmt::format("holds IDX values of type {}; only unsigned bytes (8) "
                                    "can be read",
                                    uint8_t(content[2])));
  }
  const unsigned num_dimensions = uint8_t(content[3]);
  if (num_dimensions < 1 || num_dimensions > kMaxDimensions) {
    throw_corrupt(name, fmt::format("has {} dimensions; 1 to {} can be read", num_dimensions,
                                    kMaxDimensions));
  }
  if (content.size() < 4 + 4 * num_dimensions) throw_corrupt(name, "ends within its header");
  std::vector<uint32_t> dimensions(num_dimensions);
  for (unsigned i = 0; i < num_dimensions; ++i) dimensions[i] = big_endian(content, 4 + 4 * i);
  return dimensions;
}

/// Returns "60000 x 28 x 28".
std::string format_dimensions(const std::vector<uint32_t>& dimensions) {
  std::vector<std::string> parts;
  for (const uint32_t dimension : dimensions) parts.push_back(std::to_string(dimension));
  return join(parts, " x ");
}

/// Whether the product of `dimensions` is `size`, without overflow.
bool is_product(const std::vector<uint32_t>& dimensions, size_t size) {
  if (std::count(dimensions.begin(), dimensions.end(), 0u) > 0) return size == 0;
  size_t product = 1;
  for (const uint32_t dimension : dimensions) {
    if (product > size / dimension) return false;
    product *= dimension;
  }
  return product == size;
}

Rows<uint8_t> rows_of(const IdxArray& array, const SharedBytes& content, size_t row_size) {
  Rows<uint8_t> rows;
  rows.add(reinterpret_cast<const uint8_t*>(array.values.data()), array.dimensions[0], row_size,
           content.owner);
  return rows;
}

}  // namespace

IdxArray parse_idx(std::string_view content, const std::string& name) {
  IdxArray array{parse_header(content, name), {}};
  array.values = content.substr(4 + 4 * array.dimensions.size());
  if (!is_product(array.dimensions, array.values.size())) {
    throw_corrupt(name, fmt::format("its header declares {} bytes, but {} follow; fetch it again",
                                    format_dimensions(array.dimensions), array.values.size()));
  }
  return array;
}

Dataset join_idx(const IdxFile& images, const IdxFile& labels) {
  const IdxArray pixels = parse_idx(images.content.view, images.path.string());
  const IdxArray numbers = parse_idx(labels.content.view, labels.path.string());
  const std::vector<uint32_t>& dimensions = pixels.dimensions;
  if (dimensions.size() < 3) {
    throw_corrupt(images.path.string(),
                  fmt::format("has {} dimensions; images have 3 (N, H, W) or 4 "
                              "(N, C, H, W)",
                              dimensions.size()));
  }
  if (numbers.dimensions.size() != 1) {
    throw_corrupt(labels.path.string(),
                  fmt::format("has {} dimensions; labels have 1", numbers.dimensions.size()));
  }
  if (dimensions[0] != numbers.dimensions[0]) {
    throw_corrupt(labels.path.string(),
                  fmt::format("has {} labels for the {} images of {}", numbers.dimensions[0],
                              dimensions[0], images.path.filename().string()));
  }
  Dataset dataset;
  dataset.shape = {dimensions.size() == 4 ? dimensions[1] : 1, dimensions[dimensions.size() - 2],
                   dimensions[dimensions.size() - 1]};
  dataset.pixels = rows_of(pixels, images.content, dataset.shape.num_values());
  dataset.labels = Labels(rows_of(numbers, labels.content, 1));
  for (const char label : numbers.values) {
    dataset.num_classes = std::max<uint32_t>(dataset.num_classes, uint8_t(label) + 1);
  }
  return dataset;
}

Dataset read_idx_pair(const std::filesystem::path& images, const std::filesystem::path& labels) {
  return join_idx({images, map_file(images)}, {labels, map_file(labels)});
}

}  // namespace dlflow::runtime
