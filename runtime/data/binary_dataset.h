#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "base/shared_bytes.h"
#include "runtime/data/dataset.h"

/// The project's own format for a split, one file NAME.dlset: docs/user/data-format.md has every
/// byte.
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
/// and, if they are to be proven, hash and masks agree, every label is below num_classes and every
/// target is finite.
Dataset parse_binary_dataset(const SharedBytes& content, const std::string& name,
                             Proof proof = Proof::Hash);
Dataset read_binary_dataset(const std::filesystem::path& file, Proof proof = Proof::Hash);

/// What the file `content`, whose samples have sizes of their own, says of where each ends.
std::span<const uint64_t> encoded_ends(std::string_view content, const BinaryHeader& header);

/// The hashes that a file holds of its images, chunk_samples at a time.
struct ChunkHashes {
  std::string_view of_chunks;  ///< in the file, one behind the other, as long as of_all
  std::string_view of_all;     ///< of these hashes, the header and the labels
};

/// The hashes in `content`; they, header and labels are proven, and no image is read. Throws
/// Error{Corrupt}, "`name`: reason", if they are damaged, InvalidInput if it is of version 1.
ChunkHashes read_chunk_hashes(std::string_view content, const std::string& name);

/// Samples on their way into files, read one after the other: they need not fit into memory.
struct SampleSource {
  ImageShape shape;
  uint32_t num_classes = 0;
  PixelType pixel_type = PixelType::Byte;
  std::vector<uint32_t> labels;  ///< (N), or none; with masks all 0
  /// The bytes of an image, and its mask, as the file has them, valid until the next call.
  std::function<std::string_view(size_t sample)> image;
  uint32_t num_targets = 0;         ///< T; 0: the samples have labels
  std::vector<float> targets = {};  ///< (N, T), or none
  std::string tokenizer = {};       ///< Dataset::tokenizer
  bool has_masks = false;
  std::vector<uint64_t> encoded_sizes = {};  ///< (N), of JPEG files or texts; else none
  Reshaping reshaping = {};                  ///< Dataset::reshaping
  uint32_t vocabulary = 0;                   ///< Dataset::vocabulary

  size_t size() const { return num_targets > 0 ? targets.size() / num_targets : labels.size(); }
};

SampleSource source_of(Dataset dataset);

/// Bytes of images that have a hash together, if an image is not larger. Small, since all of it
/// is read for one image; not so small that a shared file system is asked too often.
constexpr size_t kChunkBytes = size_t{16} << 10;

/// Writes samples first to first + count - 1 to `file`: a reader sees all of it or what was there
/// before.
BinaryHeader write_binary_dataset(const std::filesystem::path& file, const SampleSource& source,
                                  size_t first, size_t count, size_t chunk_bytes = kChunkBytes);
BinaryHeader write_binary_dataset(const std::filesystem::path& file, const Dataset& dataset,
                                  size_t chunk_bytes = kChunkBytes);

/// The length of a file with `count` samples of `source` from `first` on.
uint64_t binary_dataset_bytes(const SampleSource& source, size_t first, size_t count);

}  // namespace dlflow::runtime
