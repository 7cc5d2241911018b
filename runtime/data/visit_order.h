#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/data/chunked_dataset.h"
#include "runtime/data/shard.h"

/// In which order the ranks of a node look at images: what a cache plans by.
namespace dlflow::runtime {

/// Consecutive things: leaves of a step, or batches.
struct Run {
  size_t first = 0, count = 0;
};

/// Epochs of training steps, each followed by the batches of validation. Steps are counted from 0
/// through all epochs; in the validation part, step k is batch k of each rank's own.
struct VisitOrder {
  uint64_t seed = 0, num_epochs = 1;

  std::vector<uint32_t> train_chunks;  ///< of each training sample, the chunk; may be empty
  Division division;                   ///< of the training samples
  std::vector<Run> leaves;             ///< of each rank of the node

  std::vector<uint32_t> validation_chunks;  ///< of each sample that is validated with
  size_t validation_batch = 1;
  std::vector<Run> batches;  ///< of each rank of the node

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

/// The chunks of the images of `dataset`, which is a part of `chunked.dataset()`.
std::vector<uint32_t> chunks_of_images(const ChunkedDataset& chunked, const Dataset& dataset);

}  // namespace dlflow::runtime
