#include "runtime/data/chunked_dataset.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/sha256.h"
#include "base/shared_bytes.h"
#include "base/units.h"
#include "runtime/data/sharded_dataset.h"

namespace dlflow::runtime {
namespace {

namespace fs = std::filesystem;

/// Returns the .dlset files of a split, in order.
std::vector<fs::path> binary_files(const SplitFiles& found, const fs::path& folder) {
  switch (found.format) {
    case SplitFiles::Format::Binary:
      return found.files;
    case SplitFiles::Format::Shards:
      for (const Shard& shard : read_shard_index(found.files[0])) {
        require_shard(found.files[0], shard);
      }
      return {found.files.begin() + 1, found.files.end()};
    case SplitFiles::Format::Idx:
      break;
  }
  throw Error(Errc::InvalidInput, found.files[0].string() +
                                      ": IDX files have no hashes of their parts; pack them: "
                                      "dlflow data pack " +
                                      folder.string() + " -o FOLDER");
}

size_t row_bytes(const BinaryHeader& header) {
  return values_of_row(header.shape, header.has_masks) *
         (header.pixel_type == PixelType::Float ? sizeof(float) : 1);
}

size_t image_bytes(const BinaryHeader& header) {
  if (has_own_sizes(header.pixel_type)) return header.encoded_bytes;
  return header.num_samples * row_bytes(header);
}

/// Size of all chunks but the last; 0 if samples differ in size.
size_t chunk_bytes_of(const BinaryHeader& header) {
  if (has_own_sizes(header.pixel_type)) return 0;
  return row_bytes(header) * std::min<uint64_t>(header.chunk_samples, header.num_samples);
}

constexpr size_t kMostChunkBytes = std::numeric_limits<uint32_t>::max();

const std::byte* bytes_at(std::string_view text, size_t offset) {
  return reinterpret_cast<const std::byte*>(text.data()) + offset;
}

}  // namespace

bool has_chunk_hashes(const SplitFiles& files) {
  const auto has_hashes = [](const BinaryHeader& header) {
    return header.chunk_samples > 0 && chunk_bytes_of(header) <= kMostChunkBytes;
  };
  switch (files.format) {
    case SplitFiles::Format::Binary:
      return has_hashes(read_binary_header(files.files[0]));
    case SplitFiles::Format::Shards: {
      const ShardIndex index = read_shard_index(files.files[0]);
      return std::all_of(index.begin(), index.end(), [&](const Shard& shard) {
        return has_hashes(require_shard(files.files[0], shard));
      });
    }
    case SplitFiles::Format::Idx:
      break;
  }
  return false;
}

ChunkedDataset::ChunkedDataset(const fs::path& folder, Split split) {
  const std::vector<SplitFiles> splits = splits_to_read(folder, split);
  for (const fs::path& file : binary_files(splits[0], folder)) add(file, false);
  if (splits.size() > 1) {
    for (const fs::path& file : binary_files(splits[1], folder)) add(file, true);
  }
  if (dataset_.size() == 0 || dataset_.shape.num_values() == 0) {
    throw Error(Errc::InvalidInput, folder.string() + ": the data set holds no images");
  }
  for (uint32_t file = 0; file < files_.size(); ++file) by_address_.push_back(file);
  std::ranges::sort(by_address_, {}, [this](uint32_t file) { return mapped_[file].begin; });
}

void ChunkedDataset::add(const fs::path& file, bool is_validation) {
  const BinaryHeader header = read_binary_header(file);
  const SharedBytes content = map_file(file);
  const ChunkHashes hashes = read_chunk_hashes(content.view, file.string());
  const Dataset part = parse_binary_dataset(content, file.string(), Proof::Structure);
  const size_t hash_bytes = hashes.of_chunks.size() + hashes.of_all.size();
  const size_t end = content.view.size() - hash_bytes, begin = end - image_bytes(header);
  Mapped mapped{bytes_at(content.view, begin),
                bytes_at(content.view, end),
                begin,
                num_chunks_,
                chunk_bytes_of(header),
                hashes,
                encoded_ends(content.view, header),
                header.chunk_samples};
  const size_t chunks = hashes.of_chunks.size() / hashes.of_all.size();
  size_t chunk = mapped.chunk_bytes;
  for (size_t i = 0; i < chunks && chunk_bytes_of(header) == 0; ++i) {
    chunk = std::max(chunk, mapped.begin_of(i + 1) - mapped.begin_of(i));
  }
  if (chunk > kMostChunkBytes) {
    throw Error(Errc::InvalidInput,
                file.string() + ": has parts of " + format_size(chunk) +
                    ", but less than 4 GiB can be verified at a time; pack the data again");
  }
  mapped_.push_back(mapped);
  num_chunks_ += chunks;
  files_.push_back(file);
  if (files_.size() == 1) {
    dataset_ = part;
  } else if (is_validation) {
    append_validation(dataset_, part, file);
  } else {
    append_shard(dataset_, part, file);
  }
}

size_t ChunkedDataset::Mapped::begin_of(size_t chunk) const {
  if (chunk_bytes > 0) return std::min(chunk * chunk_bytes, size_t(end - begin));
  const size_t samples = std::min(chunk * chunk_samples, ends.size());
  return samples == 0 ? 0 : ends[samples - 1];
}

size_t ChunkedDataset::Mapped::chunk_at(size_t at) const {
  if (chunk_bytes > 0) return at / chunk_bytes;
  return size_t(std::ranges::upper_bound(ends, at) - ends.begin()) / chunk_samples;
}

Chunk ChunkedDataset::chunk(size_t index) const {
  DLFLOW_CHECK(index < num_chunks_);
  const auto behind = std::ranges::upper_bound(mapped_, index, {}, &Mapped::first_chunk);
  const Mapped& file = *std::prev(behind);
  const size_t within = index - file.first_chunk, at = file.begin_of(within);
  const size_t bytes = file.begin_of(within + 1) - at;
  const size_t digits = file.hashes.of_all.size();
  return {uint32_t(&file - mapped_.data()), file.offset + at, uint32_t(bytes),
          file.hashes.of_chunks.substr(within * digits, digits)};
}

ImagePlace ChunkedDataset::place_of(const void* image) const {
  const auto* const address = static_cast<const std::byte*>(image);
  const auto behind = std::ranges::upper_bound(
      by_address_, address, {}, [this](uint32_t file) { return mapped_[file].begin; });
  DLFLOW_CHECK(behind != by_address_.begin());
  const Mapped& file = mapped_[*std::prev(behind)];
  DLFLOW_CHECK(address < file.end);
  const size_t offset = size_t(address - file.begin);
  const size_t chunk = file.chunk_at(offset);
  return {uint32_t(file.first_chunk + chunk), uint32_t(offset - file.begin_of(chunk))};
}

std::string ChunkedDataset::content_hash() const {
  Sha256 hash;
  for (const Mapped& file : mapped_) hash.update(file.hashes.of_all);
  if (dataset_.num_validation > 0) hash.update(std::to_string(dataset_.num_validation));
  return hash.hex();
}

}  // namespace dlflow::runtime
