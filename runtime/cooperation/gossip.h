#pragma once

#include <vector>

#include "runtime/collectives/link.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/cooperation/averaging.h"
#include "runtime/cooperation/cooperation.h"

namespace dlflow::runtime {

/// Every rank trains its own model on its share of the samples. After each `every` steps it sends
/// its state (weights, running statistics, the optimizer's state) to one other rank and averages
/// its own with that received from another; the peers change from round to round
/// (exchange_graph.h). At meetings, so at the end of an epoch and for a checkpoint, all states are
/// replaced by their mean. Decentralised; staleness bounded by L = ceil(lg P) rounds: progress of
/// one rank takes so long to reach all, and no rank gets further ahead of another.
///
/// A rank that calls for a meeting names a step L rounds ahead; the earliest named step travels
/// with the states, so that all ranks have it before they reach it.
///
/// Cost of an exchange: one message of each array of the state to one rank, regardless of P.
/// Source: Lian et al., arXiv 1705.09056; with momentum averaged, Ying et al., arXiv 2110.13363;
/// with meetings, Chen et al., arXiv 2105.09080.
class Gossip : public Cooperation {
 public:
  Gossip(const CooperationOptions& options, Communicator& comm, const RuleSet& rules,
         Timeline& timeline);

  Role role() override;
  Meeting advance(const Learner& learner, const Stretch& stretch) override;

 private:
  /// The earliest step at which all can meet if this rank calls for it after `done` steps.
  uint64_t earliest_meeting(uint64_t done) const;

  /// Averages `state` with a neighbour's; returns the earlier of `meeting` and the neighbour's.
  uint64_t exchange(uint64_t round, std::vector<std::span<float>> state, uint64_t meeting);

  uint64_t every_;
  Communicator& comm_;
  Link link_;
  Timeline& timeline_;
  ThreadGroup alone_{1};
  Averaging averaging_;
  std::vector<std::vector<float>> received_;  // of the sizes of the state
};

}  // namespace dlflow::runtime
