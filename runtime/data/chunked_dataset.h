#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/binary_dataset.h"
#include "runtime/data/dataset.h"
#include "runtime/data/split_files.h"

/// A split whose images are read chunk by chunk, each proven by its own hash.
namespace dlflow::runtime {

/// Images that lie one behind the other and have a hash together, which is the chunk's name: the
/// same content is the same chunk wherever it lies.
struct Chunk {
  uint32_t file = 0;  ///< of ChunkedDataset::files
  uint64_t offset = 0;
  uint32_t bytes = 0;
  std::string_view sha256;
};

/// Where an image lies in its chunk.
struct ImagePlace {
  uint32_t chunk = 0, offset = 0;
};

/// Whether a ChunkedDataset can be made of them, by their headers. Throws Error as open_dataset.
bool has_chunk_hashes(const SplitFiles& files);

class ChunkedDataset {
 public:
  /// The files of `split` in `folder`, behind those of the training split those for validation, if
  /// there are any: header, labels and hashes are read and proven, images are
  /// not. Throws Error as open_dataset does, and InvalidInput naming a file that has no hashes of
  /// chunks.
  ChunkedDataset(const std::filesystem::path& folder, Split split);

  /// Its images are addresses in mapped files, by which place_of() knows them: whoever looks at one
  /// reads the file itself.
  const Dataset& dataset() const { return dataset_; }

  const std::vector<std::filesystem::path>& files() const { return files_; }
  size_t num_chunks() const { return num_chunks_; }

  /// Worked out from where its file lies: there may be as many chunks as images.
  Chunk chunk(size_t index) const;

  ImagePlace place_of(const void* image) const;

  /// A hash of all hashes: the same for the same content in the same files.
  std::string content_hash() const;

 private:
  void add(const std::filesystem::path& file, bool is_validation);

  /// A file where it is mapped.
  struct Mapped {
    const std::byte *begin, *end;  ///< its images
    size_t offset;                 ///< of them in the file
    size_t first_chunk;
    size_t chunk_bytes;  ///< but of the last; 0: they differ
    ChunkHashes hashes;
    std::span<const uint64_t> ends;  ///< of JPEG files
    size_t chunk_samples;

    size_t begin_of(size_t chunk) const;  ///< from `begin` on
    size_t chunk_at(size_t at) const;
  };
  Dataset dataset_;
  std::vector<std::filesystem::path> files_;
  std::vector<Mapped> mapped_;        // of each file
  std::vector<uint32_t> by_address_;  // files
  size_t num_chunks_ = 0;
};

}  // namespace dlflow::runtime
