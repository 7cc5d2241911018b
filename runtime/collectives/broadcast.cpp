#include "runtime/collectives/broadcast.h"

namespace dlflow::runtime {

Task broadcast(Link link, std::span<std::byte> bytes, int root) {
  // In round k the ranks at a distance below 2^k from the root have the bytes and pass them on.
  const int ranks = link.size(), distance = (link.rank() - root + ranks) % ranks;
  for (int reached = 1; reached < ranks; reached *= 2) {
    if (distance < reached && distance + reached < ranks) {
      co_await link.send(bytes, link.neighbour(reached));
    } else if (distance >= reached && distance < 2 * reached) {
      co_await link.receive(bytes, link.neighbour(-reached));
    }
  }
}

}  // namespace dlflow::runtime
