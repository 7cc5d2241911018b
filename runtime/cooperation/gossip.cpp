#include <algorithm>
#include <vector>

#include "runtime/collectives/link.h"
#include "runtime/cooperation/exchange_graph.h"
#include "runtime/cooperation/ways.h"

namespace dlflow::runtime {
namespace {

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
class Gossip final : public OwnModels {
 public:
  explicit Gossip(const WaySetup& setup) : OwnModels(setup), link_(setup.comm) {}

  Meeting advance(const Learner& learner, const Stretch& stretch) override {
    OwnSteps steps(comm_, learner.stepper);
    uint64_t done = stretch.done, meeting = stretch.limit;
    while (done < meeting) {
      const OwnStep own = steps.make();
      ++done;
      if (own.report.calls_for_meeting()) meeting = std::min(meeting, earliest_meeting(done));
      if (done < stretch.limit && done % options_.every == 0) {
        meeting = exchange(done / options_.every, learner.own.state(), meeting);
      }
    }
    return {done, average(learner.own.state(), steps.report())};
  }

 private:
  /// The earliest step at which all can meet if this rank calls for it after `done` steps: the next
  /// exchange is the first to carry the call; exchange_rounds() exchanges inform all ranks.
  uint64_t earliest_meeting(uint64_t done) const {
    const uint64_t next = (done + options_.every - 1) / options_.every;
    return (next + uint64_t(exchange_rounds(comm_.size())) - 1) * options_.every;
  }

  /// Averages `state` with a neighbour's; returns the earlier of `meeting` and the neighbour's.
  uint64_t exchange(uint64_t round, std::vector<std::span<float>> state, uint64_t meeting) {
    const auto [to, from] = neighbours(round, comm_.rank(), comm_.size());
    if (to == comm_.rank()) return meeting;
    const Timed timed(timeline_, Timeline::Row::Waiting, "exchange");
    received_.resize(state.size());
    uint64_t theirs = 0;
    Messages messages = link_.messages();
    link_.receive(messages, std::as_writable_bytes(std::span(&theirs, 1)), from);
    link_.send(messages, std::as_bytes(std::span(&meeting, 1)), to);
    for (size_t i = 0; i < state.size(); ++i) {
      received_[i].resize(state[i].size());
      link_.receive(messages, std::as_writable_bytes(std::span(received_[i])), from);
      link_.send(messages, std::as_bytes(state[i]), to);
    }
    run(comm_, messages);
    for (size_t i = 0; i < state.size(); ++i) {
      for (size_t k = 0; k < state[i].size(); ++k) {
        state[i][k] = 0.5f * state[i][k] + 0.5f * received_[i][k];
      }
    }
    return std::min(meeting, theirs);
  }

  Link link_;
  std::vector<std::vector<float>> received_;  // of the sizes of the state
};

}  // namespace

std::unique_ptr<Cooperation> make_gossip(const WaySetup& setup) {
  return std::make_unique<Gossip>(setup);
}

}  // namespace dlflow::runtime
