#include "runtime/data/idx.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
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

/// Bytes with dimensions, and what keeps them.
struct OwnedIdx {
  IdxView view;
  std::shared_ptr<const void> owner;
};

OwnedIdx map_idx(const std::filesystem::path& file) {
  SharedBytes content = map_file(file);
  return {view_idx(content.view, file.string()), std::move(content.owner)};
}

OwnedIdx owned(IdxArray array) {
  const auto values = std::make_shared<const std::vector<uint8_t>>(std::move(array.values));
  const std::string_view view(reinterpret_cast<const char*>(values->data()), values->size());
  return {{std::move(array.dimensions), view}, values};
}

Rows<uint8_t> rows_of(const OwnedIdx& array, size_t row_size) {
  Rows<uint8_t> rows;
  rows.add(reinterpret_cast<const uint8_t*>(array.view.values.data()), array.view.dimensions[0],
           row_size, array.owner);
  return rows;
}

Dataset dataset_of(const OwnedIdx& images, const std::string& images_name, const OwnedIdx& labels,
                   const std::string& labels_name) {
  const std::vector<uint32_t>& dimensions = images.view.dimensions;
  const std::vector<uint32_t>& of_labels = labels.view.dimensions;
  if (dimensions.size() < 3) {
    throw_corrupt_idx(images_name, fmt::format("has {} dimensions; images have 3 (N, H, W) or 4 "
                                               "(N, C, H, W)",
                                               dimensions.size()));
  }
  if (of_labels.size() != 1) {
    throw_corrupt_idx(labels_name,
                      fmt::format("has {} dimensions; labels have 1", of_labels.size()));
  }
  if (dimensions[0] != of_labels[0]) {
    throw_corrupt_idx(
        labels_name,
        fmt::format("has {} labels for the {} images of {}", of_labels[0], dimensions[0],
                    std::filesystem::path(images_name).filename().string()));
  }
  Dataset dataset;
  dataset.shape = {dimensions.size() == 4 ? dimensions[1] : 1, dimensions[dimensions.size() - 2],
                   dimensions[dimensions.size() - 1]};
  dataset.pixels = rows_of(images, dataset.shape.num_values());
  dataset.labels = Labels(rows_of(labels, 1));
  for (const char label : labels.view.values) {
    dataset.num_classes = std::max<uint32_t>(dataset.num_classes, uint8_t(label) + 1);
  }
  return dataset;
}

}  // namespace

IdxArray parse_idx(std::string_view content, const std::string& name) {
  IdxView array = view_idx(content, name);
  return {std::move(array.dimensions), {array.values.begin(), array.values.end()}};
}

Dataset read_idx_pair(const std::filesystem::path& images, const std::filesystem::path& labels) {
  return dataset_of(map_idx(images), images.string(), map_idx(labels), labels.string());
}

Dataset join_idx(IdxArray images, const std::string& images_name, IdxArray labels,
                 const std::string& labels_name) {
  return dataset_of(owned(std::move(images)), images_name, owned(std::move(labels)), labels_name);
}

}  // namespace dlflow::runtime
