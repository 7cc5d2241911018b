#pragma once

#include <vector>

#include "runtime/collectives/link.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/cooperation/averaging.h"
#include "runtime/cooperation/cooperation.h"

namespace dlflow::runtime {

/// Every rank trains a model of its own on its share of the samples. After each `every` steps it
/// sends what it has (weights, running statistics, the optimizer's state) to one other rank and
/// averages its own with what it receives from another; with whom changes from round to round
/// (exchange_graph.h). At meetings, so at the end of an epoch and for a checkpoint, all of them are
/// replaced by their mean. Decentralised; staleness bounded by L = ceil(lg P) rounds: what a rank
/// has learnt takes so long to reach all, and none gets further ahead of another.
///
/// A rank that calls for a meeting names a step L rounds ahead; the earliest one that is named
/// travels with the states, so that all know it before they come there.
///
/// Cost of an exchange: one message of each array of the state to one rank, however many there are.
/// Source: Lian et al., arXiv 1705.09056; with momentum averaged, Ying et al., arXiv 2110.13363;
/// with meetings, Chen et al., arXiv 2105.09080.
class Gossip : public Cooperation {
 public:
  Gossip(const CooperationOptions& options, Communicator& comm, const RuleSet& rules,
         Timeline& timeline);

  Role role() override;
  Meeting advance(const Learner& learner, const Stretch& stretch) override;

 private:
  /// The step in which all can be together if this rank says so after `done` steps.
  uint64_t earliest_meeting(uint64_t done) const;

  /// Averages `state` with a neighbour's; returns the earlier of `meeting` and that one's.
  uint64_t exchange(uint64_t round, std::vector<std::span<float>> state, uint64_t meeting);

  uint64_t every_;
  Communicator& comm_;
  Link link_;
  Timeline& timeline_;
  ThreadGroup alone_{1};
  Averaging averaging_;
  std::vector<std::vector<float>> received_;  // as the state
};

}  // namespace dlflow::runtime
