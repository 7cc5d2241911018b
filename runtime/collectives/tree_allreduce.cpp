#include "runtime/collectives/tree_allreduce.h"

#include "runtime/collectives/broadcast.h"
#include "runtime/collectives/exchange_and_add.h"

namespace dlflow::runtime {

Task tree_allreduce(Link link, Values values) {
  const int rank = link.rank(), ranks = link.size();
  const Values nothing = values.subrange(0, 0);
  for (int distance = 1; distance < ranks; distance *= 2) {
    if ((rank & distance) != 0) {
      co_await exchange_and_add(link, values, rank - distance, nothing, rank - distance);
      break;
    }
    if (rank + distance < ranks) {
      co_await exchange_and_add(link, nothing, rank + distance, values, rank + distance);
    }
  }
  co_await broadcast(link, values.bytes(), 0);
}

}  // namespace dlflow::runtime
