#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/sha256.h"
#include "runtime/data/dataset.h"

/// The project's own format for a split, one file NAME.dlset: its header and the location of each
/// part. docs/user/dlset.md describes every byte.
namespace dlflow::runtime {

enum class PixelType : uint32_t { Byte = 0, Float = 1, Jpeg = 2, Token = 3 };

/// Whether samples differ in size: JPEG files, or texts of any number of tokens.
constexpr bool has_own_sizes(PixelType type) { return type >= PixelType::Jpeg; }

PixelType pixel_type_of(const Dataset& dataset);

/// The header of a .dlset file.
struct BinaryHeader {
  PixelType pixel_type = PixelType::Byte;
  uint64_t num_samples = 0;
  ImageShape shape;
  uint32_t num_classes = 0;
  std::string sha256;          ///< hash of the whole file except for these digits
  uint32_t chunk_samples = 0;  ///< images per hash; 0: version 1, without hashes
  uint32_t num_targets = 0;    ///< per sample; 0: it has a label
  std::string tokenizer = {};  ///< Dataset::tokenizer
  bool has_masks = false;      ///< behind each image; samples then have no labels
  uint64_t encoded_bytes = 0;  ///< sum over all JPEG files or texts
  Reshaping reshaping = {};    ///< Dataset::reshaping
  uint32_t vocabulary = 0;     ///< Dataset::vocabulary

  bool operator==(const BinaryHeader&) const = default;
};

constexpr size_t kBinaryHeaderBytes = 128;

/// Returns the header of a file of `file_size` bytes. Throws Error{Corrupt}, "`name`: reason", if
/// it is invalid or the file has another length. \param content  at least the header of the file
BinaryHeader parse_binary_header(std::string_view content, size_t file_size,
                                 const std::string& name);

/// Reads the header alone. Throws like parse_binary_header().
BinaryHeader read_binary_header(const std::filesystem::path& file);

/// Returns the header's bytes, with zeros in place of the hash.
std::string binary_header_bytes(const BinaryHeader& header);

/// Size of the index before the labels, which holds the ends of samples that differ in size.
size_t index_bytes(const BinaryHeader& header);

/// Size of a sample's label or targets. Masks are stored with the images.
size_t answer_bytes(const BinaryHeader& header);

/// Size of the hashes behind the pixels: one per chunk, and one of everything but the pixels.
/// Returns nothing on overflow.
std::optional<size_t> hash_bytes(const BinaryHeader& header);

/// Size of the whole file; nothing on overflow.
std::optional<size_t> binary_file_bytes(const BinaryHeader& header);

/// Computes the hash in a file's header from the file's bytes, part by part.
class BinaryHash {
 public:
  static constexpr size_t kOffset = 40;  ///< offset of its digits in the file
  static constexpr size_t kDigits = 64;

  BinaryHash& update(std::string_view bytes);
  std::string hex() { return hash_.hex(); }

 private:
  Sha256 hash_;
  uint64_t size_ = 0;  // bytes hashed so far
};

}  // namespace dlflow::runtime
