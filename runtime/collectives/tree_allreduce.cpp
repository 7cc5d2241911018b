#include "runtime/collectives/tree_allreduce.h"

#include <memory>

#include "runtime/collectives/broadcast.h"
#include "runtime/collectives/vector_ops.h"

namespace dlflow::runtime {

Task tree_allreduce(Link link, Values values) {
  const int rank = link.rank(), ranks = link.size();
  const auto scratch = std::make_unique_for_overwrite<std::byte[]>(values.bytes().size());
  const Values theirs(scratch.get(), values.count, values.type);
  for (int distance = 1; distance < ranks; distance *= 2) {
    if ((rank & distance) != 0) {
      co_await link.send(values.bytes(), rank - distance);
      break;
    }
    if (rank + distance < ranks) {
      co_await link.receive(theirs.bytes(), rank + distance);
      add(values, theirs);
    }
  }
  co_await broadcast(link, values.bytes(), 0);
}

}  // namespace dlflow::runtime
