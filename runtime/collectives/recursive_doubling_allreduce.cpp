#include "runtime/collectives/recursive_doubling_allreduce.h"

#include <memory>

#include "runtime/collectives/folding.h"
#include "runtime/collectives/vector_ops.h"

namespace dlflow::runtime {

Task recursive_doubling_allreduce(Link link, Values values) {
  const Folding folding(link);
  if (folding.hands_over()) {
    co_await link.send(values.bytes(), folding.partner());
    co_await link.receive(values.bytes(), folding.partner());
    co_return;
  }
  const auto scratch = std::make_unique_for_overwrite<std::byte[]>(values.bytes().size());
  const Values theirs(scratch.get(), values.count, values.type);
  if (folding.takes_over()) {
    co_await link.receive(theirs.bytes(), folding.partner());
    add(values, theirs);
  }
  for (int distance = 1; distance < folding.core_size(); distance *= 2) {
    const int peer = folding.name(folding.core_rank() ^ distance);
    co_await link.exchange(values.bytes(), peer, theirs.bytes(), peer);
    add(values, theirs);
  }
  if (folding.takes_over()) co_await link.send(values.bytes(), folding.partner());
}

}  // namespace dlflow::runtime
