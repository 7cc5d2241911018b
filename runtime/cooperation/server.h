#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/collectives/link.h"
#include "runtime/comm/communicator.h"
#include "runtime/cooperation/cooperation.h"
#include "runtime/cooperation/staleness.h"

namespace dlflow::runtime {

/// The messages between workers and parameter servers. After each step a worker sends every server
/// a Push and the gradient of its shard, and gets a Pull and the shard's weights.
struct Push {
  double rate = 0;       ///< OwnStep::rate
  uint32_t is_last = 0;  ///< 1: the worker goes to the meeting after this step
  uint32_t calls_for_meeting = 0;
};

struct Pull {
  uint64_t meeting = 0;  ///< step of the run after which the ranks meet; the first server's counts
};

/// Weights [first, first + count), which one server holds.
struct WeightRange {
  size_t first = 0;
  size_t count = 0;
};

/// The range of server `server`: servers share the weights evenly, in whole cache lines.
WeightRange weights_of_server(size_t num_weights, size_t server, size_t num_servers);

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
