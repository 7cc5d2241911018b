#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/binary_format.h"
#include "runtime/data/dataset.h"

namespace dlflow::runtime {

/// Samples to write to files, read one after the other: they need not fit into memory.
struct SampleSource {
  ImageShape shape;
  uint32_t num_classes = 0;
  PixelType pixel_type = PixelType::Byte;
  std::vector<uint32_t> labels;  ///< (N), or none; all 0 with masks
  /// Returns an image and its mask as stored in the file, valid until the next call.
  std::function<std::string_view(size_t sample)> image;
  uint32_t num_targets = 0;         ///< T; 0: the samples have labels
  std::vector<float> targets = {};  ///< (N, T), or none
  std::string tokenizer = {};       ///< Dataset::tokenizer
  bool has_masks = false;
  std::vector<uint64_t> encoded_sizes = {};  ///< (N), for JPEG files or texts; else none
  Reshaping reshaping = {};                  ///< Dataset::reshaping
  uint32_t vocabulary = 0;                   ///< Dataset::vocabulary

  size_t size() const { return num_targets > 0 ? targets.size() / num_targets : labels.size(); }
};

SampleSource source_of(Dataset dataset);

/// Most bytes of images per hash, except for a single larger image. Small, because reading one
/// image reads its whole chunk; large enough to keep requests to a shared file system few.
constexpr size_t kChunkBytes = size_t{16} << 10;

/// Writes samples first to first + count - 1 to `file` atomically.
BinaryHeader write_binary_dataset(const std::filesystem::path& file, const SampleSource& source,
                                  size_t first, size_t count, size_t chunk_bytes = kChunkBytes);
BinaryHeader write_binary_dataset(const std::filesystem::path& file, const Dataset& dataset,
                                  size_t chunk_bytes = kChunkBytes);

/// The length of a file with `count` samples of `source` from `first` on.
uint64_t binary_dataset_bytes(const SampleSource& source, size_t first, size_t count);

}  // namespace dlflow::runtime
