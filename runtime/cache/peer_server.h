#pragma once

#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/endpoint.h"
#include "runtime/cache/background_thread.h"
#include "runtime/cache/node_part.h"

namespace dlflow::runtime {

/// Gives the chunks that a node keeps to the other nodes of its job, over TCP, for as long as it
/// lives. Some threads in the background share the work: one waits for all connections,
/// the others read and send. None waits for a step of training, so that nodes cannot wait for each
/// other in a circle.
class PeerServer {
 public:
  /// `data` and `part` must outlive this. Throws Error if it cannot listen.
  PeerServer(const ChunkedDataset& data, NodePart& part, size_t num_threads = kBackgroundThreads);
  PeerServer(const PeerServer&) = delete;
  PeerServer& operator=(const PeerServer&) = delete;

  /// Tells whoever is connected that it leaves.
  ~PeerServer();

  const Endpoint& endpoint() const { return endpoint_; }

 private:
  struct Connection {
    FileDescriptor socket;
    bool is_known = false;                             // has said the token
    std::string said = {};                             // of it
    std::chrono::steady_clock::time_point until = {};  // when it must be known
  };

  void work(const std::stop_token& stop);
  std::optional<Connection> next_that_asks(const std::stop_token& stop);
  void admit();
  std::optional<Connection> take_first(const std::vector<bool>& asks);
  void give_back(Connection connection);
  bool answer(Connection& connection, std::span<std::byte> room, const std::stop_token& stop);
  bool welcome(Connection& connection) const;
  bool send_strangers_away();
  void wake() const;

  const ChunkedDataset& data_;
  NodePart& part_;
  Listener listener_;
  Endpoint endpoint_;
  FileDescriptor wake_;
  std::mutex waiting_;  // held by the thread that waits for all connections

  std::mutex mutex_;  // guards what follows
  std::deque<Connection> idle_;

  std::vector<std::jthread> threads_;  // the last member: they end before the others do
};

}  // namespace dlflow::runtime
