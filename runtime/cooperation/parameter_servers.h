#pragma once

#include <optional>

#include "runtime/collectives/link.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/cooperation/cooperation.h"
#include "runtime/cooperation/push_pull.h"
#include "runtime/cooperation/server.h"

namespace dlflow::runtime {

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
class ParameterServers : public Cooperation {
 public:
  ParameterServers(const CooperationOptions& options, Communicator& comm, Timeline& timeline);

  Role role() override;
  Meeting advance(const Learner& learner, const Stretch& stretch) override;

 private:
  bool serves() const { return size_t(comm_.rank()) >= num_workers_; }
  WeightRange shard(size_t size, size_t server) const {
    return weights_of_server(size, server, num_servers_);
  }
  Meeting work(const Learner& learner, const Stretch& stretch);
  Pull push_and_pull(OwnUpdates& own, const Push& push);
  StepReport meet(OwnUpdates& own, const StepReport& mine);

  Communicator& comm_;
  Link link_;
  Timeline& timeline_;
  size_t num_servers_, num_workers_;
  std::optional<uint64_t> staleness_;
  Server server_;  // used on servers only
  ThreadGroup alone_{1};
};

}  // namespace dlflow::runtime
