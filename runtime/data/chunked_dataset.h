#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/binary_dataset.h"
#include "runtime/data/dataset.h"
#include "runtime/data/split_files.h"

/// A split whose images are read chunk by chunk, each verified by its own hash.
namespace dlflow::runtime {

/// Consecutive images that share a hash, which identifies the chunk: the same content is the same
/// chunk in any place.
struct Chunk {
  uint32_t file = 0;  ///< index into ChunkedDataset::files
  uint64_t offset = 0;
  uint32_t bytes = 0;
  std::string_view sha256;
};

/// The location of an image in its chunk.
struct ImagePlace {
  uint32_t chunk = 0, offset = 0;
};

/// Whether a ChunkedDataset can read `files`, by their headers. Throws Error like open_dataset.
bool has_chunk_hashes(const SplitFiles& files);

class ChunkedDataset {
 public:
  /// Opens the files of `split` in `folder`; behind the training split, those for validation, if
  /// any. Verifies header, labels and hashes, but reads no images. Throws Error like open_dataset,
  /// and InvalidInput naming a file that has no hashes of chunks.
  ChunkedDataset(const std::filesystem::path& folder, Split split);

  /// The images are addresses in mapped files, which place_of() takes; reading one reads the file
  /// itself.
  const Dataset& dataset() const { return dataset_; }

  const std::vector<std::filesystem::path>& files() const { return files_; }
  size_t num_chunks() const { return num_chunks_; }

  /// Computed from the location of its file, since there may be as many chunks as images.
  Chunk chunk(size_t index) const;

  ImagePlace place_of(const void* image) const;

  /// A hash of all hashes; equal for the same content in the same files.
  std::string content_hash() const;

 private:
  void add(const std::filesystem::path& file, bool is_validation);

  /// A mapped file.
  struct Mapped {
    const std::byte *begin, *end;  ///< address range of its images
    size_t offset;                 ///< file offset of `begin`
    size_t first_chunk;
    size_t chunk_bytes;  ///< size of all chunks but the last; 0: they differ
    ChunkHashes hashes;
    std::span<const uint64_t> ends;  ///< ends of samples that differ in size
    size_t chunk_samples;

    size_t begin_of(size_t chunk) const;  ///< relative to `begin`
    size_t chunk_at(size_t at) const;
  };
  Dataset dataset_;
  std::vector<std::filesystem::path> files_;
  std::vector<Mapped> mapped_;        // one per file
  std::vector<uint32_t> by_address_;  // indices of files, sorted by address
  size_t num_chunks_ = 0;
};

}  // namespace dlflow::runtime
