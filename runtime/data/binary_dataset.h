#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "base/shared_bytes.h"
#include "runtime/data/dataset.h"

/// The project's own format for a split, one file NAME.dlset: docs/data-format.md has every byte.
namespace dlflow::runtime {

enum class PixelType : uint32_t { Byte = 0, Float = 1 };

/// What the header says.
struct BinaryHeader {
  PixelType pixel_type = PixelType::Byte;
  uint64_t num_samples = 0;
  ImageShape shape;
  uint32_t num_classes = 0;
  std::string sha256;  ///< of the whole file but these digits themselves

  bool operator==(const BinaryHeader&) const = default;
};

/// Reads the header alone. Throws Error{Corrupt} unless it is one, and the file as long as it says.
BinaryHeader read_binary_header(const std::filesystem::path& file);

/// The hash that belongs into the header of a file whose bytes come in parts.
class BinaryHash {
 public:
  BinaryHash& update(std::string_view bytes);
  std::string hex() { return hash_.hex(); }

 private:
  Sha256 hash_;
  uint64_t size_ = 0;  // of the parts so far
};

/// The images stay in `content`. Throws Error{Corrupt}, "`name`: reason", unless header, length
/// and, if they are to be proven, hash agree and every label is below num_classes.
Dataset parse_binary_dataset(const SharedBytes& content, const std::string& name,
                             Proof proof = Proof::Hash);
Dataset read_binary_dataset(const std::filesystem::path& file, Proof proof = Proof::Hash);

/// Samples on their way into files, read one after the other: they need not fit into memory.
struct SampleSource {
  ImageShape shape;
  uint32_t num_classes = 0;
  PixelType pixel_type = PixelType::Byte;
  std::vector<uint32_t> labels;  ///< (N)
  /// The bytes of an image as the file has them, valid until the next call.
  std::function<std::string_view(size_t sample)> image;
};

SampleSource source_of(Dataset dataset);

/// Writes samples first to first + count - 1 to `file`: a reader sees all of it or what was there
/// before.
BinaryHeader write_binary_dataset(const std::filesystem::path& file, const SampleSource& source,
                                  size_t first, size_t count);
BinaryHeader write_binary_dataset(const std::filesystem::path& file, const Dataset& dataset);

/// How long a file of `count` samples of `source` is.
uint64_t binary_dataset_bytes(const SampleSource& source, size_t count);

}  // namespace dlflow::runtime
