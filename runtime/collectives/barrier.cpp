#include "runtime/collectives/barrier.h"

namespace dlflow::runtime {

Task barrier(Link link) {
  for (int distance = 1; distance < link.size(); distance *= 2) {
    co_await link.exchange({}, link.neighbour(distance), {}, link.neighbour(-distance));
  }
}

}  // namespace dlflow::runtime
