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

  /// Serves until every worker has taken its last step and received its weights; returns the number
  /// of steps that the run has taken. The shard is a range of the weights in own.state().
  ///
  /// Every push is an update, in the order of arrival; without staleness, the sum of a step's
  /// gradients is one update, added in worker order. Sleeps while nothing arrives.
  uint64_t serve(OwnUpdates& own, const WeightRange& shard, const Stretch& stretch);

 private:
  /// The server's view of a worker.
  struct Client {
    enum class State { Pushes, Waits, Pulls, Done };
    State state = State::Pushes;
    Push push{};
    Pull pull{};
    std::vector<float> values{};  // the pushed gradient, then the pulled weights
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
