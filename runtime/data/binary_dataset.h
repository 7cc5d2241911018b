#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/shared_bytes.h"
#include "runtime/data/binary_format.h"
#include "runtime/data/dataset.h"

/// Reads files of the project's own format.
namespace dlflow::runtime {

/// The images stay in `content`. Throws Error{Corrupt}, "`name`: reason", unless header and length
/// are valid, with Proof::Hash also hash and masks, all labels are below num_classes, and all
/// targets are finite.
Dataset parse_binary_dataset(const SharedBytes& content, const std::string& name,
                             Proof proof = Proof::Hash);
Dataset read_binary_dataset(const std::filesystem::path& file, Proof proof = Proof::Hash);

/// Returns the ends of the samples in the file `content`, if they have different sizes.
std::span<const uint64_t> encoded_ends(std::string_view content, const BinaryHeader& header);

/// The image hashes in a file, one per chunk_samples images.
struct ChunkHashes {
  std::string_view of_chunks;  ///< consecutive digits in the file, each hash as long as of_all
  std::string_view of_all;     ///< hash of these hashes, the header and the labels
};

/// Returns the hashes in `content`. Verifies them, the header and the labels, and reads no image.
/// Throws Error{Corrupt}, "`name`: reason", if they are damaged, InvalidInput for version 1.
ChunkHashes read_chunk_hashes(std::string_view content, const std::string& name);

}  // namespace dlflow::runtime
