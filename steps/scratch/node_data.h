#pragma once

#include <filesystem>
#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/data/dataset.h"
#include "runtime/data/node_copy.h"

/// `scratch: true` of a step: its data on the disk of each of its nodes.
namespace dlflow::steps {

/// $DLFLOW_SCRATCH, else $TMPDIR, else /tmp, and $DLFLOW_SCRATCH_BUDGET.
runtime::NodeDisk node_disk();

/// Where the ranks of this node find their data, while this object lives.
class NodeData {
 public:
  /// In `data` itself.
  explicit NodeData(std::filesystem::path data) : folder_(std::move(data)) {}

  /// In a copy of the files of `split` below $DLFLOW_SCRATCH, else $TMPDIR, else /tmp, which the
  /// first rank of each node makes or finds. On a node where there can be none: in `data`, and a
  /// line on standard error says why. Rank 0 adds a message for people to `metrics`. Collective.
  /// Throws Error on the ranks that look, as open_dataset would, if `data` has no such split.
  NodeData(runtime::Communicator& comm, std::filesystem::path data, runtime::Split split,
           const std::filesystem::path& metrics);

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<runtime::NodeCopy> copy_;  // of the first rank of a node
};

}  // namespace dlflow::steps
