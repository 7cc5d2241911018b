#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/data/dataset.h"
#include "runtime/data/step_images.h"

namespace dlflow::runtime {

/// A split of a data set as the ranks of a step read it.
struct SharedSplit {
  Dataset dataset;
  std::string identity;  ///< a hash: ranks that have the same have the same samples
  /// Proves images when they are looked at; null: they are proven.
  std::shared_ptr<StepImages> images;
};

/// Opens `split` in `folder` on every rank; no byte of its images is hashed more than once on a
/// node. Of files with hashes of chunks, each rank proves header, labels and these hashes, which
/// are the identity, and whoever looks at an image first proves it for its node. Others are read as
/// a whole by the first rank of each node (NodeView).
/// Collective. Throws Error as open_dataset.
SharedSplit open_shared_split(Communicator& comm, const std::filesystem::path& folder, Split split);

/// The identity of samples that lie in memory: all of them are read.
std::string content_hash(const Dataset& dataset);

}  // namespace dlflow::runtime
