#pragma once

#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/gpu/plugin_abi.h"

namespace dlflow::runtime {

/// Returns which of the `visible` GPUs this rank uses: the only one if the launcher shows each rank
/// its own, else by its place on the node. Collective. Throws Error{InvalidInput} on every rank,
/// naming the ranks, if two would use the same GPU (NCCL takes one rank per GPU), or if a node
/// shows fewer GPUs than it has ranks; unless ranks_may_share_gpus().
int choose_device(Communicator& comm, const std::vector<DlflowGpuDevice>& visible);

/// Whether NCCL_MULTI_RANK_GPU_ENABLE=1 lets NCCL (2.30 and later) take several ranks per GPU, as
/// for tests of several ranks on a machine with one GPU.
bool ranks_may_share_gpus();

/// The check in choose_device(). `ids[r]` is the device of rank r, "" if none was left; `nodes[r]`
/// its node.
void require_own_devices(const std::vector<std::string>& ids, std::span<const int> nodes);

}  // namespace dlflow::runtime
