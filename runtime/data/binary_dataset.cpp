#include "runtime/data/binary_dataset.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "runtime/data/file_writer.h"
#include "runtime/data/picture_size.h"

namespace dlflow::runtime {
namespace {

static_assert(std::endian::native == std::endian::little);  // the file is read as it lies

// docs/user/data-format.md names every field.
constexpr std::string_view kMagic = "DLFDATA\n";
constexpr uint32_t kMaxClasses = 1 << 22;  // what is counted for each takes memory
constexpr uint32_t kVersion = 2, kVersionWithoutChunks = 1, kVersionWithTargets = 3,
                   kVersionWithMasks = 4, kVersionWithJpeg = 5, kVersionWithTexts = 6,
                   kVersionWithTextClasses = 7;

struct JpegFields {
  uint64_t encoded_bytes;
  uint32_t resize_width, resize_height;  // no height: the width is that of the shorter side
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
  uint32_t num_targets;  // of version 7: the size of the vocabulary
  union {
    unsigned char tokenizer[16];
    JpegFields jpeg;  // of version 5
  };
};
static_assert(sizeof(Header) == 128);
constexpr size_t kHashOffset = offsetof(Header, sha256);
constexpr size_t kHashSize = sizeof(Header::sha256);

[[noreturn]] void throw_corrupt(const std::string& name, const std::string& reason) {
  throw Error(Errc::Corrupt, name + ": " + reason);
}

/// Of what a sample has to be learnt: a label, or targets. A mask lies with the image.
size_t answer_bytes(const BinaryHeader& header) {
  static_assert(sizeof(float) == sizeof(uint32_t));
  return header.has_masks ? 0 : sizeof(uint32_t) * std::max<size_t>(header.num_targets, 1);
}

bool is_encoded(const BinaryHeader& header) { return has_own_sizes(header.pixel_type); }

/// Of the index, which is before labels and samples of their own sizes: where each of these ends.
size_t index_bytes(const BinaryHeader& header) {
  return is_encoded(header) ? header.num_samples * sizeof(uint64_t) : 0;
}

/// The same of header, index, labels and samples.
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

/// What header, labels or targets, and pixels take together, or nothing if that is beyond any file.
std::optional<size_t> size_without_hashes(const BinaryHeader& header) {
  if (is_encoded(header)) return size_of_encoded(header);
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

/// What the hashes behind the pixels take: one for each chunk, and one of all but the pixels.
std::optional<size_t> size_of_hashes(size_t num_samples, size_t chunk_samples) {
  if (chunk_samples == 0) return 0;
  const size_t chunks = num_samples / chunk_samples + (num_samples % chunk_samples > 0 ? 1 : 0);
  size_t size = 0;
  if (__builtin_mul_overflow(chunks, kHashSize, &size) ||
      __builtin_add_overflow(size, kHashSize, &size)) {
    return std::nullopt;
  }
  return size;
}

/// Of the whole file.
std::optional<size_t> size_of(const BinaryHeader& header) {
  const auto images = size_without_hashes(header);
  const auto hashes = size_of_hashes(header.num_samples, header.chunk_samples);
  size_t size = 0;
  if (!images || !hashes || __builtin_add_overflow(*images, *hashes, &size)) return std::nullopt;
  return size;
}

/// Of Header::tokenizer; empty if it is all zeros.
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

void write_reshaping(const Reshaping& reshaping, Header& header) {
  if (reshaping.size) {
    header.jpeg.resize_width = reshaping.size->width;
    header.jpeg.resize_height = reshaping.size->height;
  } else {
    header.jpeg.resize_width = reshaping.shorter_side.value_or(0);
  }
}

/// Throws Error{Corrupt} unless JPEG files can be decoded to what the header says.
void require_picture_shape(const Header& header, const std::string& name) {
  if (header.channels != 1 && header.channels != 3) {
    throw_corrupt(name, fmt::format("has JPEG files of {} channels, and they can have 1 or 3",
                                    header.channels));
  }
  require_picture_size({header.channels, header.height, header.width}, name);
  const bool is_resized = header.jpeg.resize_width > 0 || header.jpeg.resize_height > 0;
  if (is_resized) {
    require_picture_size({1, std::max(header.jpeg.resize_height, 1u), header.jpeg.resize_width},
                         name);
  }
}

/// What the texts of a file take, by the size of the file; 0 if that is too small for all else.
uint64_t text_bytes_of(const Header& header, size_t file_size) {
  BinaryHeader without;
  without.pixel_type = PixelType::Token;
  without.num_samples = header.num_samples;
  without.chunk_samples = header.chunk_samples;
  const auto others = size_of(without);
  return others && *others < file_size ? file_size - *others : 0;
}

/// The one pixel type of a version, if it has one.
std::optional<PixelType> type_of_version(uint32_t version) {
  if (version == kVersionWithJpeg) return PixelType::Jpeg;
  if (version == kVersionWithTexts || version == kVersionWithTextClasses) return PixelType::Token;
  return std::nullopt;
}

/// \param content    at least the header
/// \param file_size  of all of it
BinaryHeader parse_header(std::string_view content, size_t file_size, const std::string& name) {
  Header header;
  if (content.size() < sizeof(header) || !content.starts_with(kMagic)) {
    throw_corrupt(name, "is not a dlflow dataset (.dlset)");
  }
  std::memcpy(&header, content.data(), sizeof(header));
  const bool has_targets = header.version == kVersionWithTargets;
  const bool has_masks = header.version == kVersionWithMasks;
  const bool has_jpeg = header.version == kVersionWithJpeg;
  const bool has_text_classes = header.version == kVersionWithTextClasses;
  const bool has_texts = header.version == kVersionWithTexts || has_text_classes;
  const bool has_chunks =
      header.version == kVersion || has_targets || has_masks || has_jpeg || has_texts;
  if (!has_chunks && header.version != kVersionWithoutChunks) {
    throw_corrupt(name,
                  fmt::format("has version {} of the format, this dlflow reads {} to {}",
                              header.version, kVersionWithoutChunks, kVersionWithTextClasses));
  }
  if (has_targets && header.num_targets == 0) throw_corrupt(name, "has no targets");
  if (has_chunks && header.chunk_samples == 0) throw_corrupt(name, "has chunks of no samples");
  const auto type = type_of_version(header.version);
  if (type ? header.pixel_type != *type : header.pixel_type > PixelType::Float) {
    throw_corrupt(name, fmt::format("has pixels of unknown type {}", uint32_t(header.pixel_type)));
  }
  if (header.num_classes > kMaxClasses) {
    throw_corrupt(name, fmt::format("says that it has {} classes, which is more than {}",
                                    header.num_classes, kMaxClasses));
  }
  if (has_text_classes && (header.num_targets == 0 || header.num_targets > kMaxClasses)) {
    throw_corrupt(name, fmt::format("has a vocabulary of {} tokens, and it can have 1 to {}",
                                    header.num_targets, kMaxClasses));
  }
  if (has_masks && (header.num_classes == 0 || header.num_classes > kNoClass)) {
    throw_corrupt(name, fmt::format("has masks of {} classes, and they can have 1 to {}",
                                    header.num_classes, kNoClass));
  }
  if (has_jpeg) require_picture_shape(header, name);
  if (has_texts && (header.channels != 1 || header.height != 1 || header.width == 0)) {
    throw_corrupt(name, fmt::format("has texts of {} x {} x {} tokens", header.channels,
                                    header.height, header.width));
  }
  BinaryHeader known = {header.pixel_type,
                        header.num_samples,
                        {header.channels, header.height, header.width},
                        header.num_classes,
                        std::string(header.sha256, kHashSize),
                        has_chunks ? header.chunk_samples : 0,
                        has_targets ? header.num_targets : 0,
                        has_jpeg ? "" : tokenizer_digits(header.tokenizer),
                        has_masks,
                        has_jpeg    ? header.jpeg.encoded_bytes
                        : has_texts ? text_bytes_of(header, file_size)
                                    : 0,
                        has_jpeg ? reshaping_of(header) : Reshaping(),
                        has_text_classes ? header.num_targets : 0};
  if (size_of(known) != file_size) {
    throw_corrupt(name, fmt::format("has {} bytes, its header says another number; copy it again",
                                    file_size));
  }
  return known;
}

uint64_t bytes_of_encoded(const SampleSource& source, size_t first, size_t count) {
  const auto sizes = std::span(source.encoded_sizes).subspan(first, count);
  return std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
}

/// Of a usual image.
size_t row_bytes(const SampleSource& source) {
  if (has_own_sizes(source.pixel_type)) {
    return bytes_of_encoded(source, 0, source.size()) / std::max<size_t>(source.size(), 1);
  }
  return values_of_row(source.shape, source.has_masks) *
         (source.pixel_type == PixelType::Float ? sizeof(float) : 1);
}

/// As many images as fit into a chunk, but at least one.
uint32_t chunk_samples(const SampleSource& source, size_t chunk_bytes) {
  const size_t row = std::max<size_t>(1, row_bytes(source));
  return uint32_t(std::clamp<size_t>(chunk_bytes / row, 1, UINT32_MAX));
}

/// With zeros where the hash belongs.
Header header_for(const SampleSource& source, size_t first, size_t count, size_t chunk_bytes) {
  Header header{};
  kMagic.copy(header.magic, sizeof(header.magic));
  const bool is_jpeg = source.pixel_type == PixelType::Jpeg;
  header.version = is_jpeg                                 ? kVersionWithJpeg
                   : source.vocabulary > 0                 ? kVersionWithTextClasses
                   : source.pixel_type == PixelType::Token ? kVersionWithTexts
                   : source.has_masks                      ? kVersionWithMasks
                   : source.num_targets > 0                ? kVersionWithTargets
                                                           : kVersion;
  header.pixel_type = source.pixel_type;
  header.num_samples = count;
  header.channels = source.shape.channels;
  header.height = source.shape.height;
  header.width = source.shape.width;
  header.num_classes = source.num_classes;
  header.chunk_samples = chunk_samples(source, chunk_bytes);
  header.num_targets = source.vocabulary > 0 ? source.vocabulary : source.num_targets;
  if (is_jpeg) {
    header.jpeg.encoded_bytes = bytes_of_encoded(source, first, count);
    write_reshaping(source.reshaping, header);
  } else {
    write_tokenizer(source.tokenizer, header.tokenizer);
  }
  return header;
}

std::string_view bytes_of(const Header& header) {
  return {reinterpret_cast<const char*>(&header), sizeof(header)};
}

template <typename T>
std::string_view bytes_of(const T& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// `count` rows of the front of `bytes`, which is long enough.
template <typename T>
Rows<T> rows_in(std::string_view bytes, size_t count, size_t row_size,
                const std::shared_ptr<const void>& owner) {
  Rows<T> rows;
  rows.add(reinterpret_cast<const T*>(bytes.data()), count, row_size, owner);
  return rows;
}

/// Throws Error{Corrupt}, "`name`: reason", unless every label is one of a class, or every target a
/// number.
void require_answers(const Dataset& dataset, const std::string& name) {
  for (size_t i = 0; i < dataset.labels.size(); ++i) {
    if (dataset.labels[i] >= dataset.num_classes) {
      throw_corrupt(name, fmt::format("sample {} has label {}, but there are {} classes", i,
                                      dataset.labels[i], dataset.num_classes));
    }
  }
  for (size_t i = 0; i < dataset.targets.size(); ++i) {
    for (const float target : dataset.targets[i]) {
      if (!std::isfinite(target)) {
        throw_corrupt(name, fmt::format("sample {} has a target that is no finite number", i));
      }
    }
  }
}

/// Throws Error{Corrupt}, "`name`: reason", unless the ends of samples rise to that of all.
void require_ends(std::span<const uint64_t> ends, uint64_t bytes, const std::string& name) {
  uint64_t begin = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] <= begin || ends[i] > bytes) {
      throw_corrupt(name, fmt::format("sample {} ends at byte {} of {}, and begins at {}", i,
                                      ends[i], bytes, begin));
    }
    begin = ends[i];
  }
  if (begin != bytes) {
    throw_corrupt(name, fmt::format("has {} bytes behind its last sample", bytes - begin));
  }
}

/// The same unless every text has whole tokens, as many as the header allows.
void require_lengths(std::span<const uint64_t> ends, const Dataset& dataset,
                     const std::string& name) {
  uint64_t begin = 0;
  for (size_t i = 0; i < ends.size(); begin = ends[i++]) {
    const uint64_t bytes = ends[i] - begin;
    if (bytes % dataset.token_bytes == 0 && bytes / dataset.token_bytes <= dataset.shape.width) {
      continue;
    }
    throw_corrupt(name, fmt::format("sample {} has {} bytes, and can have {} tokens of {}", i,
                                    bytes, dataset.shape.width, dataset.token_bytes));
  }
}

/// The same of every pixel of every mask.
void require_masks(const Dataset& dataset, const std::string& name) {
  const auto require = [&](const auto& rows) {
    for (size_t i = 0; i < rows.size(); ++i) {
      for (const auto value : rows[i].subspan(dataset.shape.num_values())) {
        if (is_class(value, dataset.num_classes)) continue;
        throw_corrupt(name, fmt::format("sample {} has {} in its mask, but there are {} classes", i,
                                        value, dataset.num_classes));
      }
    }
  };
  if (dataset.has_masks) std::visit(require, dataset.pixels);
}

}  // namespace

BinaryHash& BinaryHash::update(std::string_view bytes) {
  /// What of `bytes` is at `first` to `end` - 1 of the file.
  const auto part = [&](uint64_t first, uint64_t end) {
    const uint64_t begin = std::clamp(first, size_, size_ + bytes.size()) - size_;
    return bytes.substr(begin, std::clamp(end, size_, size_ + bytes.size()) - size_ - begin);
  };
  hash_.update(part(0, kHashOffset)).update(part(kHashOffset + kHashSize, UINT64_MAX));
  size_ += bytes.size();
  return *this;
}

BinaryHeader read_binary_header(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw_errno("cannot open " + path.string(), errno);
  struct stat info {};
  std::string head(sizeof(Header), '\0');
  const ssize_t got = ::read(file.get(), head.data(), head.size());
  if (got < 0 || ::fstat(file.get(), &info) != 0) {
    throw_errno("cannot read " + path.string(), errno);
  }
  head.resize(size_t(got));
  return parse_header(head, size_t(info.st_size), path.string());
}

Dataset parse_binary_dataset(const SharedBytes& content, const std::string& name, Proof proof) {
  const BinaryHeader header = parse_header(content.view, content.view.size(), name);
  if (proof == Proof::Hash && BinaryHash().update(content.view).hex() != header.sha256) {
    throw_corrupt(name, "its SHA-256 does not hold: the file was damaged; copy it again");
  }
  Dataset dataset{header.shape, header.num_classes, {}, {}, header.num_targets, {}};
  dataset.tokenizer = header.tokenizer;
  const std::string_view data = content.view.substr(sizeof(Header) + index_bytes(header));
  dataset.has_masks = header.has_masks;
  if (header.has_masks) {
    dataset.labels = std::vector<uint32_t>(header.num_samples);
  } else if (header.num_targets > 0) {
    dataset.targets = rows_in<float>(data, header.num_samples, header.num_targets, content.owner);
  } else {
    dataset.labels = Labels(rows_in<uint32_t>(data, header.num_samples, 1, content.owner));
  }
  const std::string_view pixels = data.substr(header.num_samples * answer_bytes(header));
  const size_t row_size = values_of_row(header.shape, header.has_masks);
  if (is_encoded(header)) {
    const std::span<const uint64_t> ends = encoded_ends(content.view, header);
    require_ends(ends, header.encoded_bytes, name);
    EncodedImages images;
    images.add({reinterpret_cast<const uint8_t*>(pixels.data()), ends, name, content.owner});
    dataset.pixels = std::move(images);
    dataset.reshaping = header.reshaping;
    if (header.pixel_type == PixelType::Token) {
      dataset.vocabulary = header.vocabulary;
      dataset.token_bytes = token_bytes_of(dataset.num_kinds_of_token());
      require_lengths(ends, dataset, name);
    }
  } else if (header.pixel_type == PixelType::Float) {
    dataset.pixels = rows_in<float>(pixels, header.num_samples, row_size, content.owner);
  } else {
    dataset.pixels = rows_in<uint8_t>(pixels, header.num_samples, row_size, content.owner);
  }
  require_answers(dataset, name);
  if (proof == Proof::Hash) require_masks(dataset, name);
  return dataset;
}

Dataset read_binary_dataset(const std::filesystem::path& file, Proof proof) {
  return parse_binary_dataset(map_file(file), file.string(), proof);
}

std::span<const uint64_t> encoded_ends(std::string_view content, const BinaryHeader& header) {
  const std::string_view index = content.substr(sizeof(Header), index_bytes(header));
  return {reinterpret_cast<const uint64_t*>(index.data()), index.size() / sizeof(uint64_t)};
}

PixelType pixel_type_of(const Dataset& dataset) {
  if (dataset.has_texts()) return PixelType::Token;
  if (dataset.is_encoded()) return PixelType::Jpeg;
  return std::holds_alternative<Images<float>>(dataset.pixels) ? PixelType::Float : PixelType::Byte;
}

SampleSource source_of(Dataset dataset) {
  const PixelType pixel_type = pixel_type_of(dataset);
  std::vector<uint64_t> encoded_sizes;
  if (const auto* encoded = std::get_if<EncodedImages>(&dataset.pixels)) {
    for (size_t i = 0; i < encoded->size(); ++i) encoded_sizes.push_back((*encoded)[i].size());
  }
  std::vector<float> targets;
  targets.reserve(dataset.targets.size() * dataset.num_targets);
  for (size_t i = 0; i < dataset.targets.size(); ++i) {
    targets.insert(targets.end(), dataset.targets[i].begin(), dataset.targets[i].end());
  }
  return {dataset.shape,
          dataset.num_classes,
          pixel_type,
          dataset.labels.copy(),
          [pixels = std::move(dataset.pixels)](size_t sample) {
            return std::visit([&](const auto& images) { return bytes_of(images[sample]); }, pixels);
          },
          dataset.num_targets,
          std::move(targets),
          std::move(dataset.tokenizer),
          dataset.has_masks,
          std::move(encoded_sizes),
          dataset.reshaping,
          dataset.vocabulary};
}

ChunkHashes read_chunk_hashes(std::string_view content, const std::string& name) {
  const BinaryHeader header = parse_header(content, content.size(), name);
  if (header.chunk_samples == 0) {
    throw Error(Errc::InvalidInput, name +
                                        ": of version 1, without hashes of its parts; pack it "
                                        "again: dlflow data pack");
  }
  const size_t hash_bytes = *size_of_hashes(header.num_samples, header.chunk_samples);
  const std::string_view hashes = content.substr(content.size() - hash_bytes);
  const std::string_view of_chunks = hashes.substr(0, hash_bytes - kHashSize);
  const std::string_view head = content.substr(
      0, sizeof(Header) + index_bytes(header) + header.num_samples * answer_bytes(header));
  if (BinaryHash().update(head).update(of_chunks).hex() != hashes.substr(of_chunks.size())) {
    throw_corrupt(name,
                  "the SHA-256 of its labels and hashes does not hold: the file was damaged; "
                  "copy it again");
  }
  return {of_chunks, hashes.substr(of_chunks.size())};
}

namespace {

/// Of the samples of a file, if they have sizes of their own.
std::vector<uint64_t> ends_of(const SampleSource& source, size_t first, size_t count) {
  if (!has_own_sizes(source.pixel_type)) return {};
  std::vector<uint64_t> ends(count);
  const auto sizes = std::span(source.encoded_sizes).subspan(first, count);
  std::partial_sum(sizes.begin(), sizes.end(), ends.begin());
  return ends;
}

}  // namespace

BinaryHeader write_binary_dataset(const std::filesystem::path& path, const SampleSource& source,
                                  size_t first, size_t count, size_t chunk_bytes) {
  FileWriter file(path);
  BinaryHash whole, head;
  const auto write = [&](std::string_view bytes) {
    whole.update(bytes);
    file.write(bytes);
  };
  const Header header = header_for(source, first, count, chunk_bytes);
  const std::vector<uint64_t> ends = ends_of(source, first, count);
  const size_t row = source.num_targets;
  const std::string_view answers =
      source.has_masks ? std::string_view()
      : row > 0        ? bytes_of(std::span(source.targets).subspan(first * row, count * row))
                       : bytes_of(std::span(source.labels).subspan(first, count));
  for (const std::string_view part : {bytes_of(header), bytes_of(ends), answers}) {
    write(part);
    head.update(part);
  }
  std::string hashes;
  Sha256 chunk;
  for (size_t i = 0; i < count; ++i) {
    const std::string_view image = source.image(first + i);
    DLFLOW_CHECK(ends.empty() || image.size() == source.encoded_sizes[first + i]);
    write(image);
    chunk.update(image);
    if ((i + 1) % header.chunk_samples == 0 || i + 1 == count) {
      hashes += std::exchange(chunk, Sha256()).hex();
    }
  }
  write(hashes);
  write(head.update(hashes).hex());
  const std::string sha256 = whole.hex();
  file.replace(kHashOffset, sha256);
  file.publish();
  return {source.pixel_type,
          count,
          source.shape,
          source.num_classes,
          sha256,
          header.chunk_samples,
          source.num_targets,
          source.tokenizer,
          source.has_masks,
          ends.empty() ? 0 : ends.back(),
          source.reshaping,
          source.vocabulary};
}

BinaryHeader write_binary_dataset(const std::filesystem::path& file, const Dataset& dataset,
                                  size_t chunk_bytes) {
  return write_binary_dataset(file, source_of(dataset), 0, dataset.size(), chunk_bytes);
}

uint64_t binary_dataset_bytes(const SampleSource& source, size_t first, size_t count) {
  const auto size =
      size_of({source.pixel_type,
               count,
               source.shape,
               source.num_classes,
               {},
               chunk_samples(source, kChunkBytes),
               source.num_targets,
               {},
               source.has_masks,
               has_own_sizes(source.pixel_type) ? bytes_of_encoded(source, first, count) : 0});
  if (!size) throw Error(Errc::InvalidInput, "so many samples fit into no file");
  return *size;
}

}  // namespace dlflow::runtime
