#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// The `own` of each rank of this node, by its place in the node. Collective over the node.
template <typename T>
std::vector<T> gather_in_node(Communicator& comm, T own) {
  std::vector<int> ranks;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (comm.nodes()[size_t(rank)] == comm.nodes()[size_t(comm.rank())]) ranks.push_back(rank);
  }
  const size_t count = ranks.size(), place = size_t(comm.node_rank());
  std::vector<T> values(count, own);
  for (size_t distance = 1; distance < count; ++distance) {
    const size_t to = (place + distance) % count, from = (place + count - distance) % count;
    comm.send_receive(std::as_bytes(std::span(&own, 1)), ranks[to],
                      std::as_writable_bytes(std::span(&values[from], 1)), ranks[from]);
  }
  return values;
}

/// Memory for the ranks of a node in files that have no names, of which a kill leaves nothing. Its
/// descriptors travel by mailbox: no file system needs to have room for it, as /dev/shm would.
class DescriptorMemory {
 public:
  /// Collective over the node of `comm`. \param bytes  of this rank's part, which is zeroed
  DescriptorMemory(Communicator& comm, size_t bytes);
  DescriptorMemory(const DescriptorMemory&) = delete;
  DescriptorMemory& operator=(const DescriptorMemory&) = delete;
  ~DescriptorMemory();

  /// In the order of the ranks in the node.
  std::span<std::byte* const> parts() const { return parts_; }

 private:
  void map(size_t rank, int descriptor, size_t bytes);

  std::vector<std::byte*> parts_;
  std::vector<size_t> bytes_;
};

}  // namespace dlflow::runtime
