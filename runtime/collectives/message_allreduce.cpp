#include "runtime/collectives/message_allreduce.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/collectives/all_gather.h"
#include "runtime/collectives/broadcast.h"
#include "runtime/collectives/folding.h"
#include "runtime/collectives/link.h"
#include "runtime/collectives/reduce_scatter.h"

/// One function per algorithm. Costs are those for P ranks and n bytes, with a seconds per message,
/// b per byte sent, g per byte added.
namespace dlflow::runtime {
namespace {

/// Sums `values` over all ranks; `core` does so over the ranks of the core.
Task folded(Link link, Values values, Task (*core)(Link, Values, Folding)) {
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
  co_await core(link, values, folding);
  if (folding.takes_over()) co_await link.send(values.bytes(), folding.partner());
}

Task recursive_doubling_core(Link link, Values values, Folding folding) {
  for (int distance = 1; distance < folding.core_size(); distance *= 2) {
    const int peer = folding.name(folding.core_rank() ^ distance);
    co_await exchange_and_add(link, values, peer, values, peer);
  }
}

/// In round k each rank exchanges all it has with the rank at distance 2^k.
///
/// Adds along a binary tree over ranks, neighbours first, if P is a power of two: the bits of exact
/// mode with one part per rank. All ranks get the same bits in any case.
/// Cost: lg P (a + n b + n g), plus 2 (a + n b) + n g if P is not a power of two. For small n.
/// Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
/// MPICH", Int. J. High Perf. Comp. Appl. 19 (2005).
Task recursive_doubling_allreduce(Link link, Values values) {
  return folded(link, values, recursive_doubling_core);
}

/// The values that a rank sums before a round, divided between it and its peer.
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

/// A reduce-scatter in which in round k each rank gives half of its remaining values to the rank at
/// distance 2^k, and the same rounds backwards as an all-gather.
///
/// Adds along a binary tree over ranks, neighbours first, if P is a power of two: the bits of exact
/// mode with one part per rank. All ranks get the same bits in any case.
/// Cost: 2 lg P a + 2(P-1)/P n b + (P-1)/P n g, plus 2 (a + n b) + n g if P is not a power of two.
/// For large n and many ranks. Source: Rabenseifner, "Optimization of collective reduction
/// operations", ICCS 2004.
Task rabenseifner_allreduce(Link link, Values values) {
  return folded(link, values, rabenseifner_core);
}

/// Share s is summed in ring order, starting at rank s + 1: all ranks get the same bits, and so do
/// runs with the same P; with another P they agree to rounding.
/// Cost: 2(P-1) a + 2(P-1)/P n b + (P-1)/P n g. For large n and few ranks, or a P that is not a
/// power of two. Source: Patarasuk and Yuan, J. Parallel Distrib. Comput. 69 (2009), 117-124.
Task ring_allreduce(Link link, Values values) {
  co_await reduce_scatter(link, values);
  co_await all_gather(link, values);
}

/// Sums up a binomial tree to rank 0, then calls broadcast().
///
/// Adds along a binary tree over ranks, neighbours first, for any P: the bits of exact mode with
/// one part per rank.
/// Cost: 2 lg P (a + n b) + lg P n g; but all ranks together send only 2(P-1) messages, the fewest
/// possible. For small n where ranks share a core or a network link.
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

}  // namespace

Task message_allreduce(Algorithm algorithm, Link link, Values values) {
  constexpr std::pair<Algorithm, Task (*)(Link, Values)> kWays[] = {
      {Algorithm::RecursiveDoubling, recursive_doubling_allreduce},
      {Algorithm::Rabenseifner, rabenseifner_allreduce},
      {Algorithm::Ring, ring_allreduce},
      {Algorithm::Tree, tree_allreduce}};
  for (const auto& [known, allreduce] : kWays) {
    if (known == algorithm) return allreduce(std::move(link), values);
  }
  DLFLOW_CHECK(false);
}

Task mpi_allreduce(Communicator& comm, Values values) {
  Messages under_way(comm);
  under_way.add(comm.start_sum(values));
  co_await under_way;
}

}  // namespace dlflow::runtime
