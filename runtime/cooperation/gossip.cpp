#include "runtime/cooperation/gossip.h"

#include <algorithm>

#include "runtime/cooperation/exchange_graph.h"
#include "runtime/cooperation/own_steps.h"

namespace dlflow::runtime {

Gossip::Gossip(const CooperationOptions& options, Communicator& comm, const RuleSet& rules,
               Timeline& timeline)
    : every_(options.every),
      comm_(comm),
      link_(comm),
      timeline_(timeline),
      averaging_(comm, rules) {}

Role Gossip::role() { return role_of_own_model(alone_.communicator(0), comm_); }

Meeting Gossip::advance(const Learner& learner, const Stretch& stretch) {
  OwnSteps steps(comm_, learner.stepper);
  uint64_t done = stretch.done, meeting = stretch.limit;
  while (done < meeting) {
    const OwnStep own = steps.make();
    ++done;
    if (own.report.calls_for_meeting()) meeting = std::min(meeting, earliest_meeting(done));
    if (done < stretch.limit && done % every_ == 0) {
      meeting = exchange(done / every_, learner.own.state(), meeting);
    }
  }
  const Timed timed(timeline_, Timeline::Row::Waiting, "average");
  return {done, averaging_.average(learner.own.state(), steps.report())};
}

/// The next exchange is the first to carry the call; exchange_rounds() exchanges inform all ranks.
uint64_t Gossip::earliest_meeting(uint64_t done) const {
  const uint64_t next = (done + every_ - 1) / every_;
  return (next + uint64_t(exchange_rounds(comm_.size())) - 1) * every_;
}

uint64_t Gossip::exchange(uint64_t round, std::vector<std::span<float>> state, uint64_t meeting) {
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

}  // namespace dlflow::runtime
