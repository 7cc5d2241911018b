#include "runtime/gpu/device_choice.h"

#include <array>
#include <cstring>
#include <map>
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

}  // namespace

void require_own_devices(const std::vector<std::string>& ids, std::span<const int> nodes) {
  const char* advice = "; ask for `resources: {gpus_per_rank: 1}`, or for fewer `ranks`";
  std::map<std::pair<int, std::string>, size_t> owners;  // (node, device) -> rank
  for (size_t rank = 0; rank < ids.size(); ++rank) {
    if (ids[rank].empty()) {
      throw Error(Errc::InvalidInput, "rank " + std::to_string(rank) +
                                          " finds no GPU of its own: its node has more ranks than "
                                          "GPUs that they see" +
                                          advice);
    }
    const auto [owner, is_first] = owners.try_emplace({nodes[rank], ids[rank]}, rank);
    if (is_first) continue;
    throw Error(Errc::InvalidInput, "ranks " + std::to_string(owner->second) + " and " +
                                        std::to_string(rank) + " share the GPU " + ids[rank] +
                                        ", and NCCL takes one rank per GPU" + advice);
  }
}

int choose_device(Communicator& comm, const std::vector<DlflowGpuDevice>& visible) {
  const size_t choice = visible.size() == 1 ? 0 : size_t(comm.node_rank());
  DeviceId mine = {};
  if (choice < visible.size()) std::memcpy(mine.data(), visible[choice].id, mine.size() - 1);
  require_own_devices(gather(comm, mine), comm.nodes());
  return int(choice);
}

}  // namespace dlflow::runtime
