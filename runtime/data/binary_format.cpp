#include "runtime/data/binary_format.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <variant>

#include "base/error.h"
#include "base/file.h"
#include "runtime/data/picture_size.h"

namespace dlflow::runtime {
namespace {

static_assert(std::endian::native == std::endian::little);  // files are mapped without conversion

constexpr std::string_view kMagic = "DLFDATA\n";
constexpr uint32_t kMaxClasses = 1 << 22;  // counters per class take memory
constexpr uint32_t kVersionWithoutChunks = 1, kVersion = 2, kVersionWithTargets = 3,
                   kVersionWithMasks = 4, kVersionWithJpeg = 5, kVersionWithTexts = 6,
                   kVersionWithTextClasses = 7;

struct JpegFields {
  uint64_t encoded_bytes;
  uint32_t resize_width, resize_height;  // height 0: the width is the shorter side
};

struct Header {
  char magic[8];
  uint32_t version;
  PixelType pixel_type;
  uint64_t num_samples;
  uint32_t channels, height, width;
  uint32_t num_classes;
  char sha256[64];
  uint32_t chunk_samples;
  uint32_t num_targets;  // in version 7: size of the vocabulary
  union {
    unsigned char tokenizer[16];
    JpegFields jpeg;  // in version 5
  };
};
static_assert(sizeof(Header) == kBinaryHeaderBytes);
static_assert(offsetof(Header, sha256) == BinaryHash::kOffset);
static_assert(sizeof(Header::sha256) == BinaryHash::kDigits);

/// The sections that files of a version have.
struct Sections {
  bool chunks = true;
  bool targets = false;
  bool masks = false;
  bool jpeg = false;
  bool texts = false;
  bool text_classes = false;
};

/// The sections of each version, from 1 on.
constexpr Sections kSectionsOfVersion[] = {{.chunks = false},
                                           {},
                                           {.targets = true},
                                           {.masks = true},
                                           {.jpeg = true},
                                           {.texts = true},
                                           {.texts = true, .text_classes = true}};
static_assert(std::size(kSectionsOfVersion) == kVersionWithTextClasses);

/// Returns the version to write.
uint32_t version_of(const BinaryHeader& header) {
  if (header.pixel_type == PixelType::Jpeg) return kVersionWithJpeg;
  if (header.vocabulary > 0) return kVersionWithTextClasses;
  if (header.pixel_type == PixelType::Token) return kVersionWithTexts;
  if (header.has_masks) return kVersionWithMasks;
  return header.num_targets > 0 ? kVersionWithTargets : kVersion;
}

/// Returns the size without hashes of a file whose samples differ in size; nothing on overflow.
std::optional<size_t> size_of_encoded(const BinaryHeader& header) {
  constexpr size_t kOfSample = sizeof(uint64_t) + sizeof(uint32_t);
  size_t size = 0;
  if (__builtin_mul_overflow(header.num_samples, kOfSample, &size) ||
      __builtin_add_overflow(size, header.encoded_bytes, &size) ||
      __builtin_add_overflow(size, sizeof(Header), &size)) {
    return std::nullopt;
  }
  return size;
}

/// Returns the size of any file without hashes; nothing on overflow.
std::optional<size_t> size_without_hashes(const BinaryHeader& header) {
  if (has_own_sizes(header.pixel_type)) return size_of_encoded(header);
  size_t values = header.num_samples, size = 0;
  const ImageShape& shape = header.shape;
  const size_t planes = size_t(shape.channels) + (header.has_masks ? 1 : 0);
  for (const size_t dimension : {planes, size_t(shape.height), size_t(shape.width)}) {
    if (__builtin_mul_overflow(values, dimension, &values)) return std::nullopt;
  }
  const size_t pixel_bytes = header.pixel_type == PixelType::Float ? sizeof(float) : 1;
  size_t label_bytes = 0;
  if (__builtin_mul_overflow(values, pixel_bytes, &size) ||
      __builtin_mul_overflow(header.num_samples, answer_bytes(header), &label_bytes) ||
      __builtin_add_overflow(size, label_bytes, &size) ||
      __builtin_add_overflow(size, sizeof(Header), &size)) {
    return std::nullopt;
  }
  return size;
}

/// Returns the digits of Header::tokenizer; empty if it is all zeros.
std::string tokenizer_digits(const unsigned char (&bytes)[16]) {
  if (std::ranges::all_of(bytes, [](unsigned char byte) { return byte == 0; })) return {};
  std::string digits;
  for (const unsigned char byte : bytes) digits += fmt::format("{:02x}", unsigned(byte));
  return digits;
}

void write_tokenizer(const std::string& digits, unsigned char (&bytes)[16]) {
  if (digits.empty()) return;
  DLFLOW_CHECK(digits.size() == 2 * sizeof(bytes));
  for (size_t i = 0; i < sizeof(bytes); ++i) {
    bytes[i] = (unsigned char)(std::stoul(digits.substr(2 * i, 2), nullptr, 16));
  }
}

Reshaping reshaping_of(const Header& header) {
  if (header.jpeg.resize_height > 0)
    return {{}, PictureSize{header.jpeg.resize_width, header.jpeg.resize_height}};
  if (header.jpeg.resize_width > 0) return {header.jpeg.resize_width};
  return {};
}

void write_reshaping(const Reshaping& reshaping, Header& raw) {
  if (reshaping.size) {
    raw.jpeg.resize_width = reshaping.size->width;
    raw.jpeg.resize_height = reshaping.size->height;
  } else {
    raw.jpeg.resize_width = reshaping.shorter_side.value_or(0);
  }
}

/// Throws Error{Corrupt} unless JPEG files can be decoded to the header's shape.
void require_picture_shape(const Header& header, const std::string& name) {
  if (header.channels != 1 && header.channels != 3) {
    throw_corrupt(name, fmt::format("has JPEG files of {} channels, but they can have 1 or 3",
                                    header.channels));
  }
  require_picture_size({header.channels, header.height, header.width}, name);
  const bool is_resized = header.jpeg.resize_width > 0 || header.jpeg.resize_height > 0;
  if (is_resized) {
    require_picture_size({1, std::max(header.jpeg.resize_height, 1u), header.jpeg.resize_width},
                         name);
  }
}

/// Returns the bytes that `file_size` leaves for texts; 0 if the file is too small for the rest.
uint64_t text_bytes_of(const Header& header, size_t file_size) {
  BinaryHeader without;
  without.pixel_type = PixelType::Token;
  without.num_samples = header.num_samples;
  without.chunk_samples = header.chunk_samples;
  const auto others = binary_file_bytes(without);
  return others && *others < file_size ? file_size - *others : 0;
}

/// Throws Error{Corrupt} unless the header's counts are possible.
void require_counts(const Header& header, const Sections& sections, const std::string& name) {
  if (sections.targets && header.num_targets == 0) throw_corrupt(name, "has no targets");
  if (sections.chunks && header.chunk_samples == 0) {
    throw_corrupt(name, "has chunks without samples");
  }
  if (header.num_classes > kMaxClasses) {
    throw_corrupt(name, fmt::format("declares {} classes, which is more than {}",
                                    header.num_classes, kMaxClasses));
  }
  if (sections.text_classes && (header.num_targets == 0 || header.num_targets > kMaxClasses)) {
    throw_corrupt(name, fmt::format("has a vocabulary of {} tokens, but it can have 1 to {}",
                                    header.num_targets, kMaxClasses));
  }
  if (sections.masks && (header.num_classes == 0 || header.num_classes > kNoClass)) {
    throw_corrupt(name, fmt::format("has masks of {} classes, but they can have 1 to {}",
                                    header.num_classes, kNoClass));
  }
}

/// Throws Error{Corrupt} unless type and shape of samples are possible in the version.
void require_samples(const Header& header, const Sections& sections, const std::string& name) {
  const bool is_right = sections.jpeg    ? header.pixel_type == PixelType::Jpeg
                        : sections.texts ? header.pixel_type == PixelType::Token
                                         : header.pixel_type <= PixelType::Float;
  if (!is_right) {
    throw_corrupt(name, fmt::format("has pixels of unknown type {}", uint32_t(header.pixel_type)));
  }
  if (sections.jpeg) require_picture_shape(header, name);
  if (sections.texts && (header.channels != 1 || header.height != 1 || header.width == 0)) {
    throw_corrupt(name, fmt::format("has texts of {} x {} x {} tokens", header.channels,
                                    header.height, header.width));
  }
}

/// \param file_size  determines the size of texts
BinaryHeader header_from(const Header& raw, const Sections& sections, size_t file_size) {
  BinaryHeader header;
  header.pixel_type = raw.pixel_type;
  header.num_samples = raw.num_samples;
  header.shape = {raw.channels, raw.height, raw.width};
  header.num_classes = raw.num_classes;
  header.sha256.assign(raw.sha256, sizeof(raw.sha256));
  header.has_masks = sections.masks;
  if (sections.chunks) header.chunk_samples = raw.chunk_samples;
  if (sections.targets) header.num_targets = raw.num_targets;
  if (sections.text_classes) header.vocabulary = raw.num_targets;
  if (sections.texts) header.encoded_bytes = text_bytes_of(raw, file_size);
  if (sections.jpeg) {
    header.encoded_bytes = raw.jpeg.encoded_bytes;
    header.reshaping = reshaping_of(raw);
  } else {
    header.tokenizer = tokenizer_digits(raw.tokenizer);
  }
  return header;
}

}  // namespace

PixelType pixel_type_of(const Dataset& dataset) {
  if (dataset.has_texts()) return PixelType::Token;
  if (dataset.is_encoded()) return PixelType::Jpeg;
  return std::holds_alternative<PixelRows<float>>(dataset.pixels) ? PixelType::Float
                                                                  : PixelType::Byte;
}

BinaryHeader parse_binary_header(std::string_view content, size_t file_size,
                                 const std::string& name) {
  Header raw;
  if (content.size() < sizeof(raw) || !content.starts_with(kMagic)) {
    throw_corrupt(name, "is not a dlflow dataset (.dlset)");
  }
  std::memcpy(&raw, content.data(), sizeof(raw));
  if (raw.version < kVersionWithoutChunks || raw.version > kVersionWithTextClasses) {
    throw_corrupt(name, fmt::format("has version {} of the format, but this dlflow reads {} to {}",
                                    raw.version, kVersionWithoutChunks, kVersionWithTextClasses));
  }
  const Sections& sections = kSectionsOfVersion[raw.version - kVersionWithoutChunks];
  require_counts(raw, sections, name);
  require_samples(raw, sections, name);
  BinaryHeader header = header_from(raw, sections, file_size);
  if (binary_file_bytes(header) != file_size) {
    throw_corrupt(
        name,
        fmt::format("has {} bytes, but its header gives another number; copy it again", file_size));
  }
  return header;
}

BinaryHeader read_binary_header(const std::filesystem::path& path) {
  const FileDescriptor file = open_or_throw(path, O_RDONLY);
  struct stat info {};
  std::string head(sizeof(Header), '\0');
  const ssize_t got = ::read(file.get(), head.data(), head.size());
  if (got < 0 || ::fstat(file.get(), &info) != 0) {
    throw_errno("cannot read " + path.string(), errno);
  }
  head.resize(size_t(got));
  return parse_binary_header(head, size_t(info.st_size), path.string());
}

std::string binary_header_bytes(const BinaryHeader& header) {
  Header raw{};
  kMagic.copy(raw.magic, sizeof(raw.magic));
  raw.version = version_of(header);
  raw.pixel_type = header.pixel_type;
  raw.num_samples = header.num_samples;
  raw.channels = header.shape.channels;
  raw.height = header.shape.height;
  raw.width = header.shape.width;
  raw.num_classes = header.num_classes;
  raw.chunk_samples = header.chunk_samples;
  raw.num_targets = header.vocabulary > 0 ? header.vocabulary : header.num_targets;
  if (header.pixel_type == PixelType::Jpeg) {
    raw.jpeg.encoded_bytes = header.encoded_bytes;
    write_reshaping(header.reshaping, raw);
  } else {
    write_tokenizer(header.tokenizer, raw.tokenizer);
  }
  return {reinterpret_cast<const char*>(&raw), sizeof(raw)};
}

size_t index_bytes(const BinaryHeader& header) {
  return has_own_sizes(header.pixel_type) ? header.num_samples * sizeof(uint64_t) : 0;
}

size_t answer_bytes(const BinaryHeader& header) {
  static_assert(sizeof(float) == sizeof(uint32_t));
  return header.has_masks ? 0 : sizeof(uint32_t) * std::max<size_t>(header.num_targets, 1);
}

std::optional<size_t> hash_bytes(const BinaryHeader& header) {
  if (header.chunk_samples == 0) return 0;
  const size_t whole_chunks = header.num_samples / header.chunk_samples;
  const size_t chunks = whole_chunks + (header.num_samples % header.chunk_samples > 0 ? 1 : 0);
  size_t size = 0;
  if (__builtin_mul_overflow(chunks, BinaryHash::kDigits, &size) ||
      __builtin_add_overflow(size, BinaryHash::kDigits, &size)) {
    return std::nullopt;
  }
  return size;
}

std::optional<size_t> binary_file_bytes(const BinaryHeader& header) {
  const auto images = size_without_hashes(header);
  const auto hashes = hash_bytes(header);
  size_t size = 0;
  if (!images || !hashes || __builtin_add_overflow(*images, *hashes, &size)) return std::nullopt;
  return size;
}

BinaryHash& BinaryHash::update(std::string_view bytes) {
  /// Returns the part of `bytes` that is in [`first`, `end`) of the file.
  const auto part = [&](uint64_t first, uint64_t end) {
    const uint64_t begin = std::clamp(first, size_, size_ + bytes.size()) - size_;
    return bytes.substr(begin, std::clamp(end, size_, size_ + bytes.size()) - size_ - begin);
  };
  hash_.update(part(0, kOffset)).update(part(kOffset + kDigits, UINT64_MAX));
  size_ += bytes.size();
  return *this;
}

}  // namespace dlflow::runtime
