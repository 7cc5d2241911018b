#include "runtime/data/idx.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/shared_bytes.h"
#include "base/text.h"

namespace dlflow::runtime {
namespace {

constexpr uint8_t kUnsignedBytes = 0x08;
constexpr unsigned kMaxDimensions = 4;

[[noreturn]] void throw_corrupt_idx(const std::string& name, const std::string& reason) {
  throw Error(Errc::Corrupt, name + ": " + reason);
}

uint32_t big_endian(std::string_view content, size_t offset) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | uint8_t(content[offset + i]);
  return value;
}

/// The header's dimensions. Throws unless it is one of unsigned bytes.
std::vector<uint32_t> parse_header(std::string_view content, const std::string& name) {
  if (content.starts_with("\x1f\x8b")) {
    throw_corrupt_idx(name, "is still compressed; unpack it, in a stage step with `unpack: gzip`");
  }
  if (content.size() < 4 || content[0] != 0 || content[1] != 0) {
    throw_corrupt_idx(name, "is not an IDX file: it does not begin with two zero bytes");
  }
  if (uint8_t(content[2]) != kUnsignedBytes) {
    throw_corrupt_idx(name, fmt::format("holds IDX values of type {}; only unsigned bytes (8) "
                                        "can be read",
                                        uint8_t(content[2])));
  }
  const unsigned num_dimensions = uint8_t(content[3]);
  if (num_dimensions < 1 || num_dimensions > kMaxDimensions) {
    throw_corrupt_idx(name, fmt::format("has {} dimensions; 1 to {} can be read", num_dimensions,
                                        kMaxDimensions));
  }
  if (content.size() < 4 + 4 * num_dimensions) throw_corrupt_idx(name, "ends within its header");
  std::vector<uint32_t> dimensions(num_dimensions);
  for (unsigned i = 0; i < num_dimensions; ++i) dimensions[i] = big_endian(content, 4 + 4 * i);
  return dimensions;
}

/// As in "60000 x 28 x 28".
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

/// An IDX file where it lies.
struct IdxView {
  std::vector<uint32_t> dimensions;
  std::string_view values;
};

IdxView view_idx(std::string_view content, const std::string& name) {
  IdxView array{parse_header(content, name), {}};
  array.values = content.substr(4 + 4 * array.dimensions.size());
  if (!is_product(array.dimensions, array.values.size())) {
    throw_corrupt_idx(name, fmt::format("its header says {} bytes, but {} follow; fetch it again",
                                        format_dimensions(array.dimensions), array.values.size()));
  }
  return array;
}

/// \param images  their dimensions; the values are with `owner`
Dataset dataset_of(const IdxView& images, std::shared_ptr<const void> owner,
                   const std::string& images_name, const IdxArray& labels,
                   const std::string& labels_name) {
  const std::vector<uint32_t>& dimensions = images.dimensions;
  if (dimensions.size() < 3) {
    throw_corrupt_idx(images_name, fmt::format("has {} dimensions; images have 3 (N, H, W) or 4 "
                                               "(N, C, H, W)",
                                               dimensions.size()));
  }
  if (labels.dimensions.size() != 1) {
    throw_corrupt_idx(labels_name,
                      fmt::format("has {} dimensions; labels have 1", labels.dimensions.size()));
  }
  if (dimensions[0] != labels.dimensions[0]) {
    throw_corrupt_idx(
        labels_name,
        fmt::format("has {} labels for the {} images of {}", labels.dimensions[0], dimensions[0],
                    std::filesystem::path(images_name).filename().string()));
  }
  Dataset dataset;
  dataset.shape = {dimensions.size() == 4 ? dimensions[1] : 1, dimensions[dimensions.size() - 2],
                   dimensions[dimensions.size() - 1]};
  Images<uint8_t> pixels;
  pixels.add(reinterpret_cast<const uint8_t*>(images.values.data()), dimensions[0],
             dataset.shape.num_values(), std::move(owner));
  dataset.pixels = std::move(pixels);
  dataset.labels.assign(labels.values.begin(), labels.values.end());
  for (const uint32_t label : dataset.labels) {
    dataset.num_classes = std::max(dataset.num_classes, label + 1);
  }
  return dataset;
}

}  // namespace

IdxArray parse_idx(std::string_view content, const std::string& name) {
  IdxView array = view_idx(content, name);
  return {std::move(array.dimensions), {array.values.begin(), array.values.end()}};
}

Dataset read_idx_pair(const std::filesystem::path& images, const std::filesystem::path& labels) {
  const SharedBytes content = map_file(images);
  return dataset_of(view_idx(content.view, images.string()), content.owner, images.string(),
                    parse_idx(read_file(labels), labels.string()), labels.string());
}

Dataset join_idx(IdxArray images, const std::string& images_name, const IdxArray& labels,
                 const std::string& labels_name) {
  const auto values = std::make_shared<const std::vector<uint8_t>>(std::move(images.values));
  const std::string_view view(reinterpret_cast<const char*>(values->data()), values->size());
  return dataset_of({std::move(images.dimensions), view}, values, images_name, labels, labels_name);
}

}  // namespace dlflow::runtime
