#pragma once

#include <optional>
#include <vector>

#include "runtime/collectives/link.h"
#include "runtime/comm/communicator.h"
#include "runtime/cooperation/cooperation.h"
#include "runtime/cooperation/push_pull.h"
#include "runtime/cooperation/staleness.h"

namespace dlflow::runtime {

/// The server's side of ParameterServers: holds a shard of the weights and makes its updates.
class Server {
 public:
  /// Workers are the first ranks of `comm`, which must outlive this.
  Server(Communicator& comm, Link link, size_t num_workers, std::optional<uint64_t> staleness);

  /// Serves until every worker has made its last step and has its weights; returns the steps of the
  /// run that are done then. The shard is one of own.state()'s weights.
  ///
  /// Every push is an update, in the order in which they come; without staleness, the sum of all
  /// workers' gradients of a step is one, added in their order. It sleeps while nothing comes.
  uint64_t serve(OwnUpdates& own, const WeightRange& shard, const Stretch& stretch);

 private:
  /// A worker, as this server sees it.
  struct Client {
    enum class State { Pushes, Waits, Pulls, Done };
    State state = State::Pushes;
    Push push{};
    Pull pull{};
    std::vector<float> values{};  // the gradient that it pushes, then the weights that it pulls
    Messages messages;            // under way
  };

  bool is_synchronous() const { return staleness_bound_ == 0u; }
  bool all_done() const;
  void await_push(size_t worker);
  bool look_at(size_t worker, OwnUpdates& own);
  void take_push(size_t worker, OwnUpdates& own);
  void update(Client& client, OwnUpdates& own);
  void send_weights(OwnUpdates& own);

  Communicator& comm_;
  Link link_;
  std::optional<uint64_t> staleness_bound_;
  Staleness staleness_;
  WeightRange shard_;
  std::vector<Client> clients_;
  uint64_t meeting_ = 0;
};

}  // namespace dlflow::runtime
