#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "runtime/collectives/all_gather.h"
#include "runtime/collectives/link.h"
#include "runtime/collectives/message_allreduce.h"
#include "runtime/cooperation/server.h"
#include "runtime/cooperation/ways.h"

namespace dlflow::runtime {
namespace {

/// The last N ranks are servers: each holds a shard of the weights with its part of the optimizer's
/// state, and updates it. The others, W workers, compute gradients on their shares of the samples:
/// each pushes its own and pulls new weights after every step. Centralised.
///
/// No worker begins a step while it is more than `staleness` steps ahead of the slowest. With 0,
/// training is synchronous: the sum of a step's gradients is one update, and the result is that of
/// an all-reduce up to the order of additions. Otherwise each push is an update, its learning rate
/// weighted by its share of the samples; without a bound training is asynchronous, and workers wait
/// for each other only at meetings.
///
/// Cost of a step, n bytes of weights: a worker sends n and receives n in 2N messages each way; a
/// server sends and receives W n / N. Memory of a server: W n / N besides its weights.
/// Source: Li et al., OSDI 2014; Ho et al., NIPS 2013.
class ParameterServers final : public Cooperation {
 public:
  explicit ParameterServers(const WaySetup& setup)
      : comm_(setup.comm),
        link_(comm_),
        timeline_(setup.timeline),
        num_servers_(size_t(setup.options.servers)),
        num_workers_(size_t(num_workers(setup.options, comm_.size()))),
        staleness_(setup.options.staleness),
        server_(comm_, link_, num_workers_, staleness_) {}

  Role role() override {
    return {.team = &alone_.communicator(0),
            .num_teams = num_workers_,
            .index = serves() ? 0 : size_t(comm_.rank()),
            .computes = !serves(),
            .updates = false,
            .own_mean = staleness_ != 0u};
  }

  Meeting advance(const Learner& learner, const Stretch& stretch) override {
    if (!serves()) return work(learner, stretch);
    const size_t weights = learner.own.state().front().size();
    const WeightRange own = shard(weights, size_t(comm_.rank()) - num_workers_);
    const uint64_t done = server_.serve(learner.own, own, stretch);
    return {done, meet(learner.own, learner.own.wishes())};
  }

 private:
  bool serves() const { return size_t(comm_.rank()) >= num_workers_; }

  WeightRange shard(size_t size, size_t server) const {
    return weights_of_server(size, server, num_servers_);
  }

  Meeting work(const Learner& learner, const Stretch& stretch) {
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

  Pull push_and_pull(OwnUpdates& own, const Push& push) {
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
  StepReport meet(OwnUpdates& own, const StepReport& mine) {
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

  Communicator& comm_;
  Link link_;
  Timeline& timeline_;
  size_t num_servers_, num_workers_;
  std::optional<uint64_t> staleness_;
  Server server_;  // used on servers only
  ThreadGroup alone_{1};
};

}  // namespace

std::unique_ptr<Cooperation> make_parameter_servers(const WaySetup& setup) {
  return std::make_unique<ParameterServers>(setup);
}

}  // namespace dlflow::runtime
