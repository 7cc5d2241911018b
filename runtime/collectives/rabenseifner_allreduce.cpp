#include "runtime/collectives/rabenseifner_allreduce.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/collectives/folding.h"
#include "runtime/collectives/vector_ops.h"

namespace dlflow::runtime {
namespace {

/// What a rank has to do before a round, divided between it and its peer.
struct Halves {
  int peer;
  Values kept, given;
};

}  // namespace

Task rabenseifner_allreduce(Link link, Values values) {
  const Folding folding(link);
  if (folding.hands_over()) {
    co_await link.send(values.bytes(), folding.partner());
    co_await link.receive(values.bytes(), folding.partner());
    co_return;
  }
  const size_t most = folding.takes_over() ? values.count : (values.count + 1) / 2;
  const auto scratch = std::make_unique_for_overwrite<std::byte[]>(most * size_of(values.type));
  const auto theirs = [&](size_t count) { return Values(scratch.get(), count, values.type); };
  if (folding.takes_over()) {
    co_await link.receive(theirs(values.count).bytes(), folding.partner());
    add(values, theirs(values.count));
  }
  std::vector<Halves> rounds;
  Values mine = values;
  for (int distance = 1; distance < folding.core_size(); distance *= 2) {
    const int upper = (folding.core_rank() & distance) != 0 ? 1 : 0;
    rounds.push_back({folding.name(folding.core_rank() ^ distance), mine.share(upper, 2),
                      mine.share(1 - upper, 2)});
    const Halves& round = rounds.back();
    mine = round.kept;
    co_await link.exchange(round.given.bytes(), round.peer, theirs(mine.count).bytes(), round.peer);
    add(mine, theirs(mine.count));
  }
  for (; !rounds.empty(); rounds.pop_back()) {
    const Halves& round = rounds.back();
    co_await link.exchange(round.kept.bytes(), round.peer, round.given.bytes(), round.peer);
  }
  if (folding.takes_over()) co_await link.send(values.bytes(), folding.partner());
}

}  // namespace dlflow::runtime
