#include "runtime/cooperation/server.h"

#include <algorithm>

#include "base/aligned_floats.h"
#include "runtime/collectives/vector_ops.h"
#include "runtime/comm/backoff.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

WeightRange weights_of_server(size_t num_weights, size_t server, size_t num_servers) {
  const size_t lines = whole_lines(num_weights) / kLineElements;
  const auto first_of = [&](size_t i) {
    return std::min(lines * i / num_servers * kLineElements, num_weights);
  };
  return {first_of(server), first_of(server + 1) - first_of(server)};
}

Server::Server(Communicator& comm, Link link, size_t num_workers, std::optional<uint64_t> staleness)
    : comm_(comm),
      link_(std::move(link)),
      staleness_bound_(staleness),
      staleness_(num_workers, staleness) {
  for (size_t i = 0; i < num_workers; ++i) clients_.push_back({.messages = link_.messages()});
}

uint64_t Server::serve(OwnUpdates& own, const WeightRange& shard, const Stretch& stretch) {
  shard_ = shard;
  meeting_ = stretch.limit;
  staleness_.begin(stretch.done);
  for (size_t worker = 0; worker < clients_.size(); ++worker) await_push(worker);
  for (Backoff backoff(comm_); !all_done();) {
    bool moved = false;
    for (size_t worker = 0; worker < clients_.size(); ++worker) {
      moved = look_at(worker, own) || moved;
    }
    if (moved) {
      backoff.restart();
    } else if (!backoff.wait()) {
      throw_no_answer(comm_.rank(), int(staleness_.slowest_worker()), comm_.timeout());
    }
  }
  return staleness_.slowest();
}

bool Server::all_done() const {
  return std::ranges::all_of(clients_,
                             [](const Client& c) { return c.state == Client::State::Done; });
}

void Server::await_push(size_t worker) {
  Client& client = clients_[worker];
  client.state = Client::State::Pushes;
  client.values.resize(shard_.count);
  client.messages = link_.messages();
  link_.receive(client.messages, std::as_writable_bytes(std::span(&client.push, 1)), int(worker));
  link_.receive(client.messages, std::as_writable_bytes(std::span(client.values)), int(worker));
}

/// Returns whether messages from or to `worker` have moved.
bool Server::look_at(size_t worker, OwnUpdates& own) {
  Client& client = clients_[worker];
  if (client.state != Client::State::Pushes && client.state != Client::State::Pulls) return false;
  const Progress progress = client.messages.poll();
  if (progress != Progress::Done) return progress == Progress::Some;
  if (client.state == Client::State::Pushes) {
    take_push(worker, own);
  } else if (client.push.is_last) {
    client.state = Client::State::Done;
  } else {
    await_push(worker);
  }
  return true;
}

void Server::take_push(size_t worker, OwnUpdates& own) {
  Client& client = clients_[worker];
  client.state = Client::State::Waits;
  staleness_.step_of(worker);
  // The fastest may be in its next step already; its next pull names the meeting in time.
  const bool asked = client.push.calls_for_meeting || own.wishes().calls_for_meeting();
  if (asked) meeting_ = std::min(meeting_, staleness_.fastest() + 2);
  update(client, own);
  send_weights(own);
}

void Server::update(Client& client, OwnUpdates& own) {
  if (!is_synchronous()) {
    if (client.push.rate > 0) own.update(shard_.first, client.values, client.push.rate);
    return;
  }
  if (staleness_.slowest() < staleness_.fastest()) return;  // pushes of this step are missing
  const std::span<float> sum = clients_[0].values;
  for (size_t i = 1; i < clients_.size(); ++i) add(sum, std::span<float>(clients_[i].values));
  own.update(shard_.first, sum, client.push.rate);
}

/// Sends the weights to all waiting workers that may go on.
void Server::send_weights(OwnUpdates& own) {
  const std::span<const float> weights = own.state().front().subspan(shard_.first, shard_.count);
  for (size_t worker = 0; worker < clients_.size(); ++worker) {
    Client& client = clients_[worker];
    if (client.state != Client::State::Waits || !staleness_.may_go_on(worker)) continue;
    client.state = Client::State::Pulls;
    client.pull.meeting = meeting_;
    std::ranges::copy(weights, client.values.begin());  // a copy that later updates do not change
    client.messages = link_.messages();
    link_.send(client.messages, std::as_bytes(std::span(&client.pull, 1)), int(worker));
    link_.send(client.messages, std::as_bytes(std::span(client.values)), int(worker));
  }
}

}  // namespace dlflow::runtime
