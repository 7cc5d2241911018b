#pragma once

#include <atomic>
#include <filesystem>
#include <span>

#include "runtime/cache/chunk_source.h"
#include "runtime/data/binary_writer.h"
#include "runtime/data/chunked_dataset.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_data.h"

/// A set of chunks in a file, and a source that counts.
namespace dlflow::test {

constexpr size_t kSamples = 200;
constexpr size_t kImage = 64, kChunk = 4 * kImage, kChunks = 50;  // of 4 images

/// Counts what is asked of it, and may do harm.
class CountingSource final : public runtime::ChunkSource {
 public:
  explicit CountingSource(const runtime::ChunkedDataset& data) : files_(data.files()) {}

  void read(const runtime::Chunk& chunk, std::span<std::byte> to) override {
    ++reads_;
    files_.read(chunk, to);
    if (harms_-- > 0) to[0] ^= std::byte(1);
  }
  void forget(const runtime::Chunk& chunk) override { files_.forget(chunk); }

  int reads() const { return reads_; }
  void harm(int reads) { harms_ = reads; }

 private:
  runtime::FileSource files_;
  std::atomic<int> reads_ = 0, harms_ = 0;
};

/// A set of 50 chunks in a folder.
struct Stored {
  TempDir folder, disk;
  runtime::Dataset original = tiny_dataset(kSamples);

  Stored() { runtime::write_binary_dataset(file(), original, kChunk); }
  std::filesystem::path file() const { return folder.path() / "train.dlset"; }
  runtime::ChunkedDataset open() const { return {folder.path(), runtime::Split::Train}; }
  uint64_t offset_of(size_t sample) const { return 128 + 4 * kSamples + sample * kImage; }
};

}  // namespace dlflow::test
