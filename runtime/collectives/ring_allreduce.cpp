#include "runtime/collectives/ring_allreduce.h"

#include "runtime/collectives/all_gather.h"
#include "runtime/collectives/reduce_scatter.h"

namespace dlflow::runtime {

Task ring_allreduce(Link link, Values values) {
  co_await reduce_scatter(link, values);
  co_await all_gather(link, values);
}

}  // namespace dlflow::runtime
