#pragma once

#include <filesystem>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// Returns the checkpoint in `step_folder` on every rank: its bytes are verified once per node
/// (NodeView) and mapped by all. `is_proven`: this rank has just verified it. Collective. Throws
/// what load_checkpoint throws; Error{InvalidInput} on every rank, naming the ranks whose
/// checkpoint differs from that of rank 0.
Checkpoint load_shared_checkpoint(Communicator& comm, const std::filesystem::path& step_folder,
                                  bool is_proven = false);

}  // namespace dlflow::runtime
