#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/sha256.h"
#include "runtime/data/dataset.h"

/// The project's own format for a split, one file NAME.dlset: its header, and what lies where.
/// docs/user/dlset.md has every byte.
namespace dlflow::runtime {

enum class PixelType : uint32_t { Byte = 0, Float = 1, Jpeg = 2, Token = 3 };

/// Each sample has a size of its own: a JPEG file, or a text of any number of tokens.
constexpr bool has_own_sizes(PixelType type) { return type >= PixelType::Jpeg; }

PixelType pixel_type_of(const Dataset& dataset);

/// The header of a .dlset file.
struct BinaryHeader {
  PixelType pixel_type = PixelType::Byte;
  uint64_t num_samples = 0;
  ImageShape shape;
  uint32_t num_classes = 0;
  std::string sha256;          ///< of the whole file but these digits themselves
  uint32_t chunk_samples = 0;  ///< images that have a hash together; 0: version 1, without such
  uint32_t num_targets = 0;    ///< of each sample; 0: it has a label
  std::string tokenizer = {};  ///< Dataset::tokenizer
  bool has_masks = false;      ///< behind each image; then samples have no labels
  uint64_t encoded_bytes = 0;  ///< of all JPEG files, or texts, together
  Reshaping reshaping = {};    ///< Dataset::reshaping
  uint32_t vocabulary = 0;     ///< Dataset::vocabulary

  bool operator==(const BinaryHeader&) const = default;
};

constexpr size_t kBinaryHeaderBytes = 128;

/// The header of a file of `file_size` bytes. Throws Error{Corrupt}, "`name`: reason", unless it is
/// one, and the file as long as it says. \param content  of the file, at least its header
BinaryHeader parse_binary_header(std::string_view content, size_t file_size,
                                 const std::string& name);

/// Reads the header alone. Throws as above.
BinaryHeader read_binary_header(const std::filesystem::path& file);

/// The header as a file has it, with zeros where the hash belongs.
std::string binary_header_bytes(const BinaryHeader& header);

/// Of the index, which is before labels and samples of their own sizes: where each of these ends.
size_t index_bytes(const BinaryHeader& header);

/// Of what a sample has to be learnt: a label, or targets. A mask lies with the image.
size_t answer_bytes(const BinaryHeader& header);

/// The hashes behind the pixels: one for each chunk, and one of all but the pixels. Nothing if that
/// is beyond any file.
std::optional<size_t> hash_bytes(const BinaryHeader& header);

/// The whole file, or nothing if that is beyond any.
std::optional<size_t> binary_file_bytes(const BinaryHeader& header);

/// The hash that belongs into the header of a file whose bytes come in parts.
class BinaryHash {
 public:
  static constexpr size_t kOffset = 40;  ///< of its digits in the file
  static constexpr size_t kDigits = 64;

  BinaryHash& update(std::string_view bytes);
  std::string hex() { return hash_.hex(); }

 private:
  Sha256 hash_;
  uint64_t size_ = 0;  // of the parts so far
};

}  // namespace dlflow::runtime
