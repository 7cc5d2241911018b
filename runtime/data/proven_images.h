#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/data/chunked_dataset.h"
#include "runtime/data/step_images.h"

namespace dlflow::runtime {

/// The images in a data set's files. The hash of each chunk is verified when the first of the ranks
/// that share a record reads it. Any thread may call it.
class ProvenImages final : public StepImages {
 public:
  /// The size of a record for `data`.
  static size_t record_bytes(const ChunkedDataset& data);

  /// \param record  initially zeroed, 8-byte aligned, shared by ranks that have the same files
  /// open; must outlive this
  ProvenImages(std::shared_ptr<const ChunkedDataset> data, std::byte* record);

  /// Throws Error{Corrupt} naming file and bytes if the chunk of `image` is damaged.
  void check(const void* image) override;

  /// Bytes verified so far, and the loader's progress.
  std::atomic<uint64_t>& arrivals() override { return *arrivals_; }

 private:
  std::shared_ptr<const ChunkedDataset> data_;
  std::atomic<uint64_t>* arrivals_;
  std::span<std::atomic<uint64_t>> proven_;  // one bit per chunk
};

}  // namespace dlflow::runtime
