#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/data/chunked_dataset.h"
#include "runtime/data/shard.h"

/// In which order the ranks of a node look at images: what a cache plans by.
namespace dlflow::runtime {

/// The chunk of each sample of a part of a data set, worked out from where its image lies.
class SampleChunks {
 public:
  SampleChunks() = default;

  /// `chunked` must outlive this; `part` is one of `chunked.dataset()`.
  SampleChunks(const ChunkedDataset& chunked, Dataset part)
      : chunked_(&chunked), part_(std::move(part)) {}

  size_t size() const { return part_.size(); }
  const Dataset& part() const { return part_; }
  uint32_t operator[](size_t sample) const;

 private:
  const ChunkedDataset* chunked_ = nullptr;
  Dataset part_;
};

/// Epochs of training steps, each followed by the batches of validation. Steps are counted from 0
/// through all epochs; in the validation part, step k is batch k of each rank's own.
struct VisitOrder {
  uint64_t seed = 0, num_epochs = 1;

  SampleChunks train_chunks;       ///< of the training samples; may be empty
  Division division;               ///< of the same
  std::vector<IndexRange> leaves;  ///< of each rank of the node
  size_t text_block = 0;           ///< LoaderOptions::text_block

  SampleChunks validation_chunks;  ///< of the samples that are validated with
  size_t validation_batch = 1;
  std::vector<IndexRange> batches;  ///< of each rank of the node

  uint64_t train_steps() const { return division.num_steps(); }
  uint64_t validation_steps() const;
  uint64_t steps_per_epoch() const { return train_steps() + validation_steps(); }
  uint64_t end() const { return num_epochs * steps_per_epoch(); }

  /// The chunks that the node looks at in each step of an epoch, each once.
  std::vector<std::vector<uint32_t>> chunks_of(uint64_t epoch) const;

  /// No step looks at more chunks than this.
  size_t most_chunks_per_step() const;

  /// The first step from `step` on in which a rank of the node trains, or validates; max() if there
  /// is none.
  uint64_t next_training(uint64_t step) const;
  uint64_t next_validation(uint64_t step, int rank) const;
};

}  // namespace dlflow::runtime
