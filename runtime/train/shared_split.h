#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/data/dataset.h"
#include "runtime/data/step_images.h"

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

}  // namespace dlflow::runtime
