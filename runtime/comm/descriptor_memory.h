#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// Returns the `own` of each rank of this node, by its place in the node. Collective over the node;
/// each of P ranks sends lg P messages.
/// Source: Bruck, Ho, Kipnis, Upfal and Weathersby, IEEE Trans. Parallel Distrib. Syst. 8 (1997).
template <typename T>
std::vector<T> gather_in_node(Communicator& comm, T own) {
  const std::vector<int> ranks = ranks_of_node(comm);
  const size_t count = ranks.size(), place = size_t(comm.node_rank());
  std::vector<T> values(count, own);  // [i]: value of the rank i places after this one, cyclically
  for (size_t have = 1; have < count; have *= 2) {
    const size_t more = std::min(have, count - have);
    const size_t to = (place + count - have) % count, from = (place + have) % count;
    comm.send_receive(std::as_bytes(std::span(values).first(more)), ranks[to],
                      std::as_writable_bytes(std::span(values).subspan(have, more)), ranks[from]);
  }
  std::rotate(values.begin(), values.begin() + long((count - place) % count), values.end());
  return values;
}

/// Memory for the ranks of a node in one anonymous file, which vanishes even after a kill.
/// Mailboxes pass its descriptor along a binomial tree. Unlike /dev/shm, it needs no room in a file
/// system, and each rank needs one mapping regardless of the number of ranks.
class DescriptorMemory {
 public:
  /// Collective over the node of `comm`. \param bytes  size of this rank's part, which is zeroed
  DescriptorMemory(Communicator& comm, size_t bytes);
  DescriptorMemory(const DescriptorMemory&) = delete;
  DescriptorMemory& operator=(const DescriptorMemory&) = delete;
  ~DescriptorMemory();

  /// The parts in the order of the ranks in the node.
  std::span<std::byte* const> parts() const { return parts_; }

 private:
  void* memory_ = nullptr;
  size_t bytes_ = 0;  // of all ranks
  std::vector<std::byte*> parts_;
};

}  // namespace dlflow::runtime
