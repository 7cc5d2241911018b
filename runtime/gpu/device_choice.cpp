#include "runtime/gpu/device_choice.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

using DeviceId = std::array<char, sizeof(DlflowGpuDevice::id)>;

std::vector<std::string> gather(Communicator& comm, const DeviceId& mine) {
  std::vector<std::string> ids;
  for (int rank = 0; rank < comm.size(); ++rank) {
    DeviceId id = mine;
    comm.broadcast(std::as_writable_bytes(std::span(id)), rank);
    ids.emplace_back(id.data());
  }
  return ids;
}

/// Returns the ID of GPU `index`; empty if there are fewer.
DeviceId id_of(const std::vector<DlflowGpuDevice>& visible, size_t index) {
  DeviceId id = {};
  if (index < visible.size()) std::memcpy(id.data(), visible[index].id, id.size() - 1);
  return id;
}

/// Whether the launcher gave each rank of this node GPUs of its own.
bool all_differ_on_node(const std::vector<std::string>& ids, const Communicator& comm) {
  std::set<std::string> seen;
  return std::ranges::all_of(ranks_of_node(comm),
                             [&](int rank) { return seen.insert(ids[size_t(rank)]).second; });
}

/// Assigns the node's GPUs to its ranks in turn.
int shared_device(const Communicator& comm, const std::vector<DlflowGpuDevice>& visible) {
  return comm.node_rank() % int(visible.size());
}

}  // namespace

bool ranks_may_share_gpus() {
  const char* const set = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return set != nullptr && std::string(set) == "1";
}

void require_own_devices(const std::vector<std::string>& ids, std::span<const int> nodes) {
  const char* advice = "; ask for `resources: {gpus_per_rank: 1}`, or for fewer `ranks`";
  std::map<std::pair<int, std::string>, size_t> owners;  // (node, device) -> rank
  for (size_t rank = 0; rank < ids.size(); ++rank) {
    if (ids[rank].empty()) {
      throw Error(Errc::InvalidInput,
                  "rank " + std::to_string(rank) +
                      " finds no GPU of its own: its node has more ranks than visible GPUs" +
                      advice);
    }
    const auto [owner, is_first] = owners.try_emplace({nodes[rank], ids[rank]}, rank);
    if (is_first) continue;
    throw Error(Errc::InvalidInput, "ranks " + std::to_string(owner->second) + " and " +
                                        std::to_string(rank) + " share the GPU " + ids[rank] +
                                        ", but NCCL allows one rank per GPU" + advice);
  }
}

int choose_device(Communicator& comm, const std::vector<DlflowGpuDevice>& visible) {
  if (ranks_may_share_gpus() && !visible.empty()) return shared_device(comm, visible);
  const std::vector<std::string> first = gather(comm, id_of(visible, 0));
  const bool own = visible.size() == 1 || all_differ_on_node(first, comm);
  const size_t choice = own ? 0 : size_t(comm.node_rank());
  require_own_devices(gather(comm, id_of(visible, choice)), comm.nodes());
  return int(choice);
}

}  // namespace dlflow::runtime
