#include "runtime/collectives/rabenseifner_allreduce.h"

#include <vector>

#include "runtime/collectives/exchange_and_add.h"
#include "runtime/collectives/folding.h"

namespace dlflow::runtime {
namespace {

/// What a rank has to do before a round, divided between it and its peer.
struct Halves {
  int peer;
  Values kept, given;
};

Task rabenseifner_core(Link link, Values values, Folding folding) {
  std::vector<Halves> rounds;
  Values mine = values;
  for (int distance = 1; distance < folding.core_size(); distance *= 2) {
    const int upper = (folding.core_rank() & distance) != 0 ? 1 : 0;
    const int peer = folding.name(folding.core_rank() ^ distance);
    rounds.push_back({peer, mine.share(upper, 2), mine.share(1 - upper, 2)});
    mine = rounds.back().kept;
    co_await exchange_and_add(link, rounds.back().given, peer, mine, peer);
  }
  for (; !rounds.empty(); rounds.pop_back()) {
    const Halves& round = rounds.back();
    co_await link.exchange(round.kept.bytes(), round.peer, round.given.bytes(), round.peer);
  }
}

}  // namespace

Task rabenseifner_allreduce(Link link, Values values) {
  return folded(link, values, rabenseifner_core);
}

}  // namespace dlflow::runtime
