#include "runtime/data/binary_dataset.h"

#include <fmt/core.h>

#include <bit>
#include <cstddef>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"

namespace dlflow::runtime {
namespace {

static_assert(std::endian::native == std::endian::little);  // the file is read as it lies

// docs/data-format.md names every field.
constexpr std::string_view kMagic = "DLFDATA\n";
constexpr uint32_t kVersion = 1;
enum class PixelType : uint32_t { Byte = 0, Float = 1 };

struct Header {
  char magic[8];
  uint32_t version;
  PixelType pixel_type;
  uint64_t num_samples;
  uint32_t channels, height, width;
  uint32_t num_classes;
  char sha256[64];
  char reserved[24];
};
static_assert(sizeof(Header) == 128);
constexpr size_t kHashOffset = offsetof(Header, sha256);

[[noreturn]] void throw_corrupt(const std::string& name, const std::string& reason) {
  throw Error(Errc::Corrupt, name + ": " + reason);
}

/// Of everything but the hash itself.
std::string hash_of(std::string_view content) {
  return Sha256()
      .update(content.substr(0, kHashOffset))
      .update(content.substr(kHashOffset + sizeof(Header::sha256)))
      .hex();
}

template <typename T>
void append(std::string& content, const std::vector<T>& values) {
  content.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

/// `count` values from the front of `content`, which is long enough.
template <typename T>
std::vector<T> take(std::string_view& content, size_t count) {
  std::vector<T> values(count);
  if (count > 0) std::memcpy(values.data(), content.data(), count * sizeof(T));
  content.remove_prefix(count * sizeof(T));
  return values;
}

/// What header and labels and pixels take together, or nothing if that is beyond any file.
std::optional<size_t> size_of(const Header& header) {
  size_t values = header.num_samples, size = 0;
  for (const uint32_t dimension : {header.channels, header.height, header.width}) {
    if (__builtin_mul_overflow(values, dimension, &values)) return std::nullopt;
  }
  const size_t pixel_bytes = header.pixel_type == PixelType::Float ? sizeof(float) : 1;
  size_t label_bytes = 0;
  if (__builtin_mul_overflow(values, pixel_bytes, &size) ||
      __builtin_mul_overflow(header.num_samples, sizeof(uint32_t), &label_bytes) ||
      __builtin_add_overflow(size, label_bytes, &size) ||
      __builtin_add_overflow(size, sizeof(Header), &size)) {
    return std::nullopt;
  }
  return size;
}

Header parse_header(std::string_view content, const std::string& name) {
  Header header;
  if (content.size() < sizeof(header) || !content.starts_with(kMagic)) {
    throw_corrupt(name, "is not a dlflow dataset (.dlset)");
  }
  std::memcpy(&header, content.data(), sizeof(header));
  if (header.version != kVersion) {
    throw_corrupt(name, fmt::format("has version {} of the format, this dlflow reads version {}",
                                    header.version, kVersion));
  }
  if (header.pixel_type != PixelType::Byte && header.pixel_type != PixelType::Float) {
    throw_corrupt(name, fmt::format("has pixels of unknown type {}", uint32_t(header.pixel_type)));
  }
  if (size_of(header) != content.size()) {
    throw_corrupt(name, fmt::format("has {} bytes, its header says another number; copy it again",
                                    content.size()));
  }
  if (hash_of(content) != std::string_view(header.sha256, sizeof(header.sha256))) {
    throw_corrupt(name, "its SHA-256 does not hold: the file was damaged; copy it again");
  }
  return header;
}

}  // namespace

std::string format_binary_dataset(const Dataset& dataset) {
  Header header{};
  kMagic.copy(header.magic, sizeof(header.magic));
  header.version = kVersion;
  header.pixel_type = std::holds_alternative<std::vector<float>>(dataset.pixels) ? PixelType::Float
                                                                                 : PixelType::Byte;
  header.num_samples = dataset.size();
  header.channels = dataset.shape.channels;
  header.height = dataset.shape.height;
  header.width = dataset.shape.width;
  header.num_classes = dataset.num_classes;

  std::string content(reinterpret_cast<const char*>(&header), sizeof(header));
  append(content, dataset.labels);
  std::visit([&](const auto& pixels) { append(content, pixels); }, dataset.pixels);
  hash_of(content).copy(content.data() + kHashOffset, sizeof(header.sha256));
  return content;
}

Dataset parse_binary_dataset(std::string_view content, const std::string& name) {
  const Header header = parse_header(content, name);
  Dataset dataset;
  dataset.shape = {header.channels, header.height, header.width};
  dataset.num_classes = header.num_classes;
  content.remove_prefix(sizeof(header));
  dataset.labels = take<uint32_t>(content, header.num_samples);
  const size_t num_values = header.num_samples * dataset.shape.num_values();
  if (header.pixel_type == PixelType::Float) {
    dataset.pixels = take<float>(content, num_values);
  } else {
    dataset.pixels = take<uint8_t>(content, num_values);
  }
  for (size_t i = 0; i < dataset.labels.size(); ++i) {
    if (dataset.labels[i] >= dataset.num_classes) {
      throw_corrupt(name, fmt::format("sample {} has label {}, but there are {} classes", i,
                                      dataset.labels[i], dataset.num_classes));
    }
  }
  return dataset;
}

void write_binary_dataset(const std::filesystem::path& file, const Dataset& dataset) {
  write_file_atomic(file, format_binary_dataset(dataset));
}

Dataset read_binary_dataset(const std::filesystem::path& file) {
  return parse_binary_dataset(read_file(file), file.string());
}

}  // namespace dlflow::runtime
