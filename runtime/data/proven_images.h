#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/data/chunked_dataset.h"
#include "runtime/data/step_images.h"

namespace dlflow::runtime {

/// The images of a data set where they lie in its files, each proven by the hash of its chunk when
/// one of the ranks that share a record first looks at it. Any thread calls it.
class ProvenImages final : public StepImages {
 public:
  /// Of a record for `data`.
  static size_t record_bytes(const ChunkedDataset& data);

  /// \param record  zeroed at first, 8-byte aligned, of ranks that have the same files open; must
  ///                outlive this
  ProvenImages(std::shared_ptr<const ChunkedDataset> data, std::byte* record);

  /// Throws Error{Corrupt} naming file and bytes if the chunk that `image` is in is damaged.
  void check(const void* image) override;

  /// Bytes that were proven, and what a loader counts.
  std::atomic<uint64_t>& arrivals() override { return *arrivals_; }

 private:
  std::shared_ptr<const ChunkedDataset> data_;
  std::atomic<uint64_t>* arrivals_;
  std::span<std::atomic<uint64_t>> proven_;  // a bit for each chunk
};

}  // namespace dlflow::runtime
