#include "runtime/cooperation/parameter_servers.h"

#include <algorithm>
#include <array>

#include "runtime/collectives/all_gather.h"
#include "runtime/collectives/message_allreduce.h"
#include "runtime/cooperation/own_steps.h"

namespace dlflow::runtime {

ParameterServers::ParameterServers(const CooperationOptions& options, Communicator& comm,
                                   Timeline& timeline)
    : comm_(comm),
      link_(comm),
      timeline_(timeline),
      num_servers_(size_t(options.servers)),
      num_workers_(size_t(num_workers(options, comm.size()))),
      staleness_(options.staleness),
      server_(comm, link_, num_workers_, options.staleness) {}

Role ParameterServers::role() {
  return {.team = &alone_.communicator(0),
          .num_teams = num_workers_,
          .index = serves() ? 0 : size_t(comm_.rank()),
          .computes = !serves(),
          .updates = false,
          .own_mean = staleness_ != 0u};
}

Meeting ParameterServers::advance(const Learner& learner, const Stretch& stretch) {
  if (!serves()) return work(learner, stretch);
  const size_t weights = learner.own.state().front().size();
  const WeightRange own = shard(weights, size_t(comm_.rank()) - num_workers_);
  const uint64_t done = server_.serve(learner.own, own, stretch);
  return {done, meet(learner.own, learner.own.wishes())};
}

Meeting ParameterServers::work(const Learner& learner, const Stretch& stretch) {
  OwnSteps steps(comm_, learner.stepper);
  uint64_t done = stretch.done, meeting = stretch.limit;
  while (done < meeting) {
    const OwnStep own = steps.make();
    ++done;
    const Push push{own.rate, done == meeting, own.report.calls_for_meeting()};
    meeting = std::min(meeting, push_and_pull(learner.own, push).meeting);
  }
  return {done, meet(learner.own, steps.report())};
}

Pull ParameterServers::push_and_pull(OwnUpdates& own, const Push& push) {
  const Timed timed(timeline_, Timeline::Row::Waiting, "push and pull");
  const std::span<float> weights = own.state().front();
  const std::span<const float> gradient = own.gradient();
  std::vector<Pull> pulls(num_servers_);
  Messages messages = link_.messages();
  for (size_t server = 0; server < num_servers_; ++server) {
    const int rank = int(num_workers_ + server);
    const auto [first, count] = shard(weights.size(), server);
    link_.receive(messages, std::as_writable_bytes(std::span(&pulls[server], 1)), rank);
    link_.receive(messages, std::as_writable_bytes(weights.subspan(first, count)), rank);
    link_.send(messages, std::as_bytes(std::span(&push, 1)), rank);
    link_.send(messages, std::as_bytes(gradient.subspan(first, count)), rank);
  }
  run(comm_, messages);
  return pulls.front();
}

/// Gives all ranks the servers' state.
StepReport ParameterServers::meet(OwnUpdates& own, const StepReport& mine) {
  const Timed timed(timeline_, Timeline::Row::Waiting, "gather weights");
  const std::vector<std::span<float>> state = own.state();
  for (const std::span<float>& part : state) {
    std::vector<size_t> sizes(num_workers_, 0);
    for (size_t server = 0; server < num_servers_; ++server) {
      const WeightRange held = shard(state.front().size(), server);
      const size_t end = std::min(held.first + held.count, part.size());
      sizes.push_back((end - std::min(held.first, end)) * sizeof(float));
    }
    comm_.submit({"all-gather", "weights of the servers", part.size(), "fp32"});
    run(comm_, all_gather(Link(comm_), std::as_writable_bytes(part), std::move(sizes)));
  }
  uint64_t updates = own.updates();
  comm_.broadcast(std::as_writable_bytes(std::span(&updates, 1)), int(num_workers_));
  own.set_updates(updates);
  std::array<float, 3> sums = {mine.loss, mine.stops, mine.saves};
  run(comm_, message_allreduce(Algorithm::Ring, Link(comm_), std::span<float>(sums)));
  return {sums[0], sums[1], sums[2]};
}

}  // namespace dlflow::runtime
