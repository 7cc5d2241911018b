#include "runtime/data/binary_dataset.h"

#include <fmt/core.h>

#include <cmath>
#include <utility>
#include <variant>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

/// Returns the first `count` rows of `bytes`, which must be long enough.
template <typename T>
Rows<T> rows_in(std::string_view bytes, size_t count, size_t row_size,
                const std::shared_ptr<const void>& owner) {
  Rows<T> rows;
  rows.add(reinterpret_cast<const T*>(bytes.data()), count, row_size, owner);
  return rows;
}

/// Throws Error{Corrupt}, "`name`: reason", unless all labels are classes and all targets finite.
void require_answers(const Dataset& dataset, const std::string& name) {
  for (size_t i = 0; i < dataset.labels.size(); ++i) {
    if (dataset.labels[i] >= dataset.num_classes) {
      throw_corrupt(name, fmt::format("sample {} has label {}, but there are {} classes", i,
                                      dataset.labels[i], dataset.num_classes));
    }
  }
  for (size_t i = 0; i < dataset.targets.size(); ++i) {
    for (const float target : dataset.targets[i]) {
      if (!std::isfinite(target)) {
        throw_corrupt(name, fmt::format("sample {} has a target that is not a finite number", i));
      }
    }
  }
}

/// Throws Error{Corrupt}, "`name`: reason", unless the ends of samples rise to `bytes`.
void require_ends(std::span<const uint64_t> ends, uint64_t bytes, const std::string& name) {
  uint64_t begin = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] <= begin || ends[i] > bytes) {
      throw_corrupt(name, fmt::format("sample {} ends at byte {} of {}, and begins at {}", i,
                                      ends[i], bytes, begin));
    }
    begin = ends[i];
  }
  if (begin != bytes) {
    throw_corrupt(name, fmt::format("has {} bytes after its last sample", bytes - begin));
  }
}

/// Throws likewise unless every text has whole tokens, and no more than the header allows.
void require_lengths(std::span<const uint64_t> ends, const Dataset& dataset,
                     const std::string& name) {
  uint64_t begin = 0;
  for (size_t i = 0; i < ends.size(); begin = ends[i++]) {
    const uint64_t bytes = ends[i] - begin;
    if (bytes % dataset.token_bytes == 0 && bytes / dataset.token_bytes <= dataset.shape.width) {
      continue;
    }
    throw_corrupt(name, fmt::format("sample {} has {} bytes, but can have {} tokens of {}", i,
                                    bytes, dataset.shape.width, dataset.token_bytes));
  }
}

/// Throws likewise unless all pixels of masks are classes.
void require_masks(const Dataset& dataset, const std::string& name) {
  const auto require = [&](const auto& rows) {
    for (size_t i = 0; i < rows.size(); ++i) {
      for (const auto value : rows[i].subspan(dataset.shape.num_values())) {
        if (is_class(value, dataset.num_classes)) continue;
        throw_corrupt(name, fmt::format("sample {} has {} in its mask, but there are {} classes", i,
                                        value, dataset.num_classes));
      }
    }
  };
  if (dataset.has_masks) std::visit(require, dataset.pixels);
}

/// Adds labels or targets to `dataset`.
void take_answers(Dataset& dataset, const BinaryHeader& header, std::string_view bytes,
                  const std::shared_ptr<const void>& owner) {
  if (header.has_masks) {
    dataset.labels = std::vector<uint32_t>(header.num_samples);
  } else if (header.num_targets > 0) {
    dataset.targets = rows_in<float>(bytes, header.num_samples, header.num_targets, owner);
  } else {
    dataset.labels = Labels(rows_in<uint32_t>(bytes, header.num_samples, 1, owner));
  }
}

/// Adds JPEG files or texts to `dataset`. \param ends  end of each sample in `bytes`
void take_encoded(Dataset& dataset, const BinaryHeader& header, std::span<const uint64_t> ends,
                  const SharedBytes& bytes, const std::string& name) {
  require_ends(ends, header.encoded_bytes, name);
  EncodedImages images;
  images.add({reinterpret_cast<const uint8_t*>(bytes.view.data()), ends, name, bytes.owner});
  dataset.pixels = std::move(images);
  dataset.reshaping = header.reshaping;
  if (header.pixel_type != PixelType::Token) return;
  dataset.vocabulary = header.vocabulary;
  dataset.token_bytes = token_bytes_of(dataset.num_kinds_of_token());
  require_lengths(ends, dataset, name);
}

}  // namespace

Dataset parse_binary_dataset(const SharedBytes& content, const std::string& name, Proof proof) {
  const BinaryHeader header = parse_binary_header(content.view, content.view.size(), name);
  if (proof == Proof::Hash && BinaryHash().update(content.view).hex() != header.sha256) {
    throw_corrupt(name, "its SHA-256 does not match: the file was damaged; copy it again");
  }
  Dataset dataset{header.shape, header.num_classes, {}, {}, header.num_targets, {}};
  dataset.tokenizer = header.tokenizer;
  dataset.has_masks = header.has_masks;
  const std::string_view data = content.view.substr(kBinaryHeaderBytes + index_bytes(header));
  take_answers(dataset, header, data, content.owner);
  const std::string_view pixels = data.substr(header.num_samples * answer_bytes(header));
  const size_t row_size = values_of_row(header.shape, header.has_masks);
  if (has_own_sizes(header.pixel_type)) {
    take_encoded(dataset, header, encoded_ends(content.view, header), {content.owner, pixels},
                 name);
  } else if (header.pixel_type == PixelType::Float) {
    dataset.pixels = rows_in<float>(pixels, header.num_samples, row_size, content.owner);
  } else {
    dataset.pixels = rows_in<uint8_t>(pixels, header.num_samples, row_size, content.owner);
  }
  require_answers(dataset, name);
  if (proof == Proof::Hash) require_masks(dataset, name);
  return dataset;
}

Dataset read_binary_dataset(const std::filesystem::path& file, Proof proof) {
  return parse_binary_dataset(map_file(file), file.string(), proof);
}

std::span<const uint64_t> encoded_ends(std::string_view content, const BinaryHeader& header) {
  const std::string_view index = content.substr(kBinaryHeaderBytes, index_bytes(header));
  return {reinterpret_cast<const uint64_t*>(index.data()), index.size() / sizeof(uint64_t)};
}

ChunkHashes read_chunk_hashes(std::string_view content, const std::string& name) {
  const BinaryHeader header = parse_binary_header(content, content.size(), name);
  if (header.chunk_samples == 0) {
    throw Error(Errc::InvalidInput, name +
                                        ": of version 1, without hashes of its parts; pack it "
                                        "again: dlflow data pack");
  }
  const size_t all = *hash_bytes(header);
  const std::string_view hashes = content.substr(content.size() - all);
  const std::string_view of_chunks = hashes.substr(0, all - BinaryHash::kDigits);
  const std::string_view head = content.substr(
      0, kBinaryHeaderBytes + index_bytes(header) + header.num_samples * answer_bytes(header));
  if (BinaryHash().update(head).update(of_chunks).hex() != hashes.substr(of_chunks.size())) {
    throw_corrupt(name,
                  "the SHA-256 of its labels and hashes does not match: the file was damaged; "
                  "copy it again");
  }
  return {of_chunks, hashes.substr(of_chunks.size())};
}

}  // namespace dlflow::runtime
