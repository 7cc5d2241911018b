#pragma once

#include <cstddef>
#include <filesystem>
#include <mutex>
#include <span>
#include <vector>

#include "base/handle.h"
#include "runtime/data/chunked_dataset.h"

namespace dlflow::runtime {

/// Where chunks come from when no level of a cache has them.
class ChunkSource {
 public:
  virtual ~ChunkSource() = default;

  /// Fills `to`, of the chunk's size; nothing is proven. Any thread calls it. Throws Error naming
  /// the file.
  virtual void read(const Chunk& chunk, std::span<std::byte> to) = 0;

  /// Called when this chunk came damaged: the next read is not to come from this machine's
  /// memory of it.
  virtual void forget(const Chunk& chunk) = 0;
};

/// The files of a data set, mostly on a file system that many nodes share.
class FileSource final : public ChunkSource {
 public:
  explicit FileSource(std::vector<std::filesystem::path> files);

  void read(const Chunk& chunk, std::span<std::byte> to) override;
  void forget(const Chunk& chunk) override;

 private:
  FileDescriptor open(uint32_t file) const;
  int opened(uint32_t file);

  std::vector<std::filesystem::path> files_;
  bool keeps_open_;   // not if there are too many
  std::mutex mutex_;  // guards what follows
  std::vector<FileDescriptor> opened_;
};

}  // namespace dlflow::runtime
