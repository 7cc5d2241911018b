#include "runtime/collectives/recursive_doubling_allreduce.h"

#include "runtime/collectives/exchange_and_add.h"
#include "runtime/collectives/folding.h"

namespace dlflow::runtime {
namespace {

Task recursive_doubling_core(Link link, Values values, Folding folding) {
  for (int distance = 1; distance < folding.core_size(); distance *= 2) {
    const int peer = folding.name(folding.core_rank() ^ distance);
    co_await exchange_and_add(link, values, peer, values, peer);
  }
}

}  // namespace

Task recursive_doubling_allreduce(Link link, Values values) {
  return folded(link, values, recursive_doubling_core);
}

}  // namespace dlflow::runtime
