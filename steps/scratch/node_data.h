#pragma once

#include <filesystem>
#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/data/dataset.h"
#include "runtime/data/node_copy.h"

/// `scratch: true` of a step: a copy of its data on the local disk of each of its nodes.
namespace dlflow::steps {

/// $DLFLOW_SCRATCH, else $TMPDIR, else /tmp, and $DLFLOW_SCRATCH_BUDGET.
runtime::NodeDisk node_disk();

/// The place of the data for the ranks of this node, valid while this object lives.
class NodeData {
 public:
  /// Uses `data` itself.
  explicit NodeData(std::filesystem::path data) : folder_(std::move(data)) {}

  /// Uses a copy of the files of `split` below $DLFLOW_SCRATCH, else $TMPDIR, else /tmp, which the
  /// first rank of each node makes or finds. A node that cannot have a copy uses `data`, and prints
  /// the reason on standard error. Rank 0 adds a message for people to `metrics`. Collective.
  /// Throws Error on these first ranks, as open_dataset would, if `data` has no such split.
  NodeData(runtime::Communicator& comm, std::filesystem::path data, runtime::Split split,
           const std::filesystem::path& metrics);

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<runtime::NodeCopy> copy_;  // only on the first rank of a node
};

}  // namespace dlflow::steps
