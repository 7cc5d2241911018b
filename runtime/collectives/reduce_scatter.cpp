#include "runtime/collectives/reduce_scatter.h"

#include "runtime/collectives/exchange_and_add.h"

namespace dlflow::runtime {

Task reduce_scatter(Link link, Values values) {
  const int ranks = link.size(), next = link.neighbour(1), previous = link.neighbour(-1);
  // In round k a rank adds its values to the partial sum of share rank-1-k, which it passes on in
  // the next round.
  for (int round = 1; round < ranks; ++round) {
    const Values sent = values.share(link.neighbour(-round), ranks);
    const Values received = values.share(link.neighbour(-round - 1), ranks);
    co_await exchange_and_add(link, sent, next, received, previous);
  }
}

}  // namespace dlflow::runtime
