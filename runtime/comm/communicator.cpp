#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

void Communicator::barrier() {
  for (int distance = 1; distance < size(); distance *= 2) {
    const int to = (rank() + distance) % size();
    const int from = (rank() - distance + size()) % size();
    send_receive({}, to, {}, from);
  }
}

void Communicator::broadcast(std::span<std::byte> bytes, int root) {
  // In round k the ranks at distance < 2^k behind the root have the bytes and pass them on.
  const int distance = (rank() - root + size()) % size();
  const auto rank_at = [&](int from_root) { return (from_root + root) % size(); };
  for (int reached = 1; reached < size(); reached *= 2) {
    if (distance < reached) {
      if (distance + reached < size()) send(bytes, rank_at(distance + reached));
    } else if (distance < 2 * reached) {
      receive(bytes, rank_at(distance - reached));
    }
  }
}

}  // namespace dlflow::runtime
