#include "runtime/data/binary_writer.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "base/error.h"
#include "runtime/data/file_writer.h"

namespace dlflow::runtime {
namespace {

uint64_t bytes_of_encoded(const SampleSource& source, size_t first, size_t count) {
  const auto sizes = std::span(source.encoded_sizes).subspan(first, count);
  return std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
}

/// Size of a typical image.
size_t row_bytes(const SampleSource& source) {
  if (has_own_sizes(source.pixel_type)) {
    return bytes_of_encoded(source, 0, source.size()) / std::max<size_t>(source.size(), 1);
  }
  return values_of_row(source.shape, source.has_masks) *
         (source.pixel_type == PixelType::Float ? sizeof(float) : 1);
}

/// Returns how many images fit into a chunk, at least one.
uint32_t chunk_samples(const SampleSource& source, size_t chunk_bytes) {
  const size_t row = std::max<size_t>(1, row_bytes(source));
  return uint32_t(std::clamp<size_t>(chunk_bytes / row, 1, UINT32_MAX));
}

/// Returns the header of a file of samples first to first + count - 1, without its hash.
BinaryHeader header_for(const SampleSource& source, size_t first, size_t count,
                        size_t chunk_bytes) {
  BinaryHeader header;
  header.pixel_type = source.pixel_type;
  header.num_samples = count;
  header.shape = source.shape;
  header.num_classes = source.num_classes;
  header.chunk_samples = chunk_samples(source, chunk_bytes);
  header.num_targets = source.num_targets;
  header.tokenizer = source.tokenizer;
  header.has_masks = source.has_masks;
  if (has_own_sizes(source.pixel_type)) {
    header.encoded_bytes = bytes_of_encoded(source, first, count);
  }
  header.reshaping = source.reshaping;
  header.vocabulary = source.vocabulary;
  return header;
}

template <typename T>
std::string_view bytes_of(const T& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns the ends of a file's samples, if they differ in size.
std::vector<uint64_t> ends_of(const SampleSource& source, size_t first, size_t count) {
  if (!has_own_sizes(source.pixel_type)) return {};
  std::vector<uint64_t> ends(count);
  const auto sizes = std::span(source.encoded_sizes).subspan(first, count);
  std::partial_sum(sizes.begin(), sizes.end(), ends.begin());
  return ends;
}

/// Returns the bytes of labels or targets in the file.
std::string_view answers_of(const SampleSource& source, size_t first, size_t count) {
  if (source.has_masks) return {};
  const size_t row = source.num_targets;
  if (row > 0) return bytes_of(std::span(source.targets).subspan(first * row, count * row));
  return bytes_of(std::span(source.labels).subspan(first, count));
}

}  // namespace

SampleSource source_of(Dataset dataset) {
  const PixelType pixel_type = pixel_type_of(dataset);
  std::vector<uint64_t> encoded_sizes;
  if (const auto* encoded = std::get_if<EncodedImages>(&dataset.pixels)) {
    for (size_t i = 0; i < encoded->size(); ++i) encoded_sizes.push_back((*encoded)[i].size());
  }
  std::vector<float> targets;
  targets.reserve(dataset.targets.size() * dataset.num_targets);
  for (size_t i = 0; i < dataset.targets.size(); ++i) {
    targets.insert(targets.end(), dataset.targets[i].begin(), dataset.targets[i].end());
  }
  return {dataset.shape,
          dataset.num_classes,
          pixel_type,
          dataset.labels.copy(),
          [pixels = std::move(dataset.pixels)](size_t sample) {
            return std::visit([&](const auto& images) { return bytes_of(images[sample]); }, pixels);
          },
          dataset.num_targets,
          std::move(targets),
          std::move(dataset.tokenizer),
          dataset.has_masks,
          std::move(encoded_sizes),
          dataset.reshaping,
          dataset.vocabulary};
}

BinaryHeader write_binary_dataset(const std::filesystem::path& path, const SampleSource& source,
                                  size_t first, size_t count, size_t chunk_bytes) {
  FileWriter file(path);
  BinaryHash whole, head;
  const auto write = [&](std::string_view bytes) {
    whole.update(bytes);
    file.write(bytes);
  };
  BinaryHeader header = header_for(source, first, count, chunk_bytes);
  const std::vector<uint64_t> ends = ends_of(source, first, count);
  const std::string raw = binary_header_bytes(header);
  for (const std::string_view part :
       {std::string_view(raw), bytes_of(ends), answers_of(source, first, count)}) {
    write(part);
    head.update(part);
  }
  std::string hashes;
  Sha256 chunk;
  for (size_t i = 0; i < count; ++i) {
    const std::string_view image = source.image(first + i);
    DLFLOW_CHECK(ends.empty() || image.size() == source.encoded_sizes[first + i]);
    write(image);
    chunk.update(image);
    if ((i + 1) % header.chunk_samples == 0 || i + 1 == count) {
      hashes += std::exchange(chunk, Sha256()).hex();
    }
  }
  write(hashes);
  write(head.update(hashes).hex());
  header.sha256 = whole.hex();
  file.replace(BinaryHash::kOffset, header.sha256);
  file.publish();
  return header;
}

BinaryHeader write_binary_dataset(const std::filesystem::path& file, const Dataset& dataset,
                                  size_t chunk_bytes) {
  return write_binary_dataset(file, source_of(dataset), 0, dataset.size(), chunk_bytes);
}

uint64_t binary_dataset_bytes(const SampleSource& source, size_t first, size_t count) {
  const auto size = binary_file_bytes(header_for(source, first, count, kChunkBytes));
  if (!size) throw Error(Errc::InvalidInput, "no file can hold so many samples");
  return *size;
}

}  // namespace dlflow::runtime
