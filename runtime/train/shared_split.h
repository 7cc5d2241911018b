#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/data/dataset.h"
#include "runtime/data/epoch_order.h"
#include "runtime/data/normalization.h"
#include "runtime/data/step_images.h"

/// The data of a training: ranks share the work on it and its memory.
namespace dlflow::runtime {

/// A split of a data set, opened by all ranks of a step.
struct SharedSplit {
  Dataset dataset;
  std::string identity;  ///< a hash; equal on ranks that have the same samples
  /// verifies images when they are read; null: already verified
  std::shared_ptr<StepImages> images;
};

/// Opens `split` in `folder` on every rank. No image byte is hashed more than once per node. If the
/// files have hashes of chunks, each rank verifies header, labels and these hashes, which are the
/// identity; the first rank that reads an image verifies it for its node. The first rank of each
/// node reads other files as a whole (NodeView). Collective. Throws Error like open_dataset.
SharedSplit open_shared_split(Communicator& comm, const std::filesystem::path& folder, Split split);

/// Returns the identity of samples in memory; reads all of them.
std::string content_hash(const Dataset& dataset);

/// Returns the order that the ranks of this node share. Collective over the node, so ranks with
/// `reads` false call it, too. `comm` must outlive the result.
std::unique_ptr<EpochOrder> shared_order(Communicator& comm, size_t num_samples, uint64_t seed,
                                         bool reads = true);

/// Returns normalization_of(dataset); each rank reads its share of the images. Same bits for any
/// number of ranks. `images`, unless null, checks them when they are read. Collective; throws what
/// StepImages::check throws.
Normalization shared_normalization(Communicator& comm, const Dataset& dataset, StepImages* images);

}  // namespace dlflow::runtime
