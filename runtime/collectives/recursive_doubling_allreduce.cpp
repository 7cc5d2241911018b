#include "runtime/collectives/recursive_doubling_allreduce.h"

#include "runtime/collectives/exchange_and_add.h"
#include "runtime/collectives/folding.h"

namespace dlflow::runtime {

Task recursive_doubling_allreduce(Link link, Values values) {
  const Folding folding(link);
  const Values nothing = values.subrange(0, 0);
  if (folding.hands_over()) {
    co_await exchange_and_add(link, values, folding.partner(), nothing, folding.partner());
    co_await link.receive(values.bytes(), folding.partner());
    co_return;
  }
  if (folding.takes_over()) {
    co_await exchange_and_add(link, nothing, folding.partner(), values, folding.partner());
  }
  for (int distance = 1; distance < folding.core_size(); distance *= 2) {
    const int peer = folding.name(folding.core_rank() ^ distance);
    co_await exchange_and_add(link, values, peer, values, peer);
  }
  if (folding.takes_over()) co_await link.send(values.bytes(), folding.partner());
}

}  // namespace dlflow::runtime
