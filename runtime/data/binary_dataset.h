#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/shared_bytes.h"
#include "runtime/data/binary_format.h"
#include "runtime/data/dataset.h"

/// Files of the project's own format, read.
namespace dlflow::runtime {

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

}  // namespace dlflow::runtime
