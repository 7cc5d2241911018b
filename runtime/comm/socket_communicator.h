#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/endpoint.h"
#include "base/handle.h"
#include "base/socket.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/descriptor_memory.h"

namespace dlflow::runtime {

/// A place where a rank can be found by the others: open it, tell everybody its text by whatever
/// means there is, then make a SocketCommunicator of it.
class SocketEndpoint {
 public:
  /// Ranks whose `memory` is the same text share memory; empty: those of one user on one machine
  /// and in one network namespace. Throws Error if no port can be opened.
  explicit SocketEndpoint(const std::string& memory = "");

  /// One line that other ranks read; whoever knows it may join.
  std::string text() const;

 private:
  friend class SocketCommunicator;

  Listener listener_;
  Endpoint endpoint_;
  std::string memory_;
};

/// A communicator over TCP connections between processes that found each other somehow: no MPI, and
/// no launcher that would know of it. Ranks of one machine share memory by memfd, of which a kill
/// leaves nothing.
///
/// Each pair of ranks has one connection. A message that nobody waits for yet is kept in memory.
class SocketCommunicator : public Communicator {
 public:
  /// Collective over the ranks with these `endpoints`, in the order of ranks, `own` among them.
  /// Throws Error{Unavailable} naming the rank that did not come within `timeout`.
  SocketCommunicator(SocketEndpoint own, int rank, const std::vector<std::string>& endpoints,
                     std::chrono::milliseconds timeout);

  int rank() const override { return rank_; }
  int size() const override { return int(peers_.size()); }
  std::chrono::milliseconds timeout() const override { return timeout_; }

  Transfer start_send(std::span<const std::byte> bytes, int to, int channel) override;
  Transfer start_receive(std::span<std::byte> bytes, int from, int channel) override;
  bool done(Transfer& transfer) override;
  bool can_sum(DataType) const override { return false; }
  Transfer start_sum(const Values& values) override;

  std::span<const int> nodes() const override { return nodes_; }
  int node_size() const override { return int(node_ranks_.size()); }
  int node_rank() const override { return node_rank_; }
  std::span<std::byte* const> allocate_shared(size_t bytes) override;

  /// A rank that has sent a message on `channel` for which no receive was started; -1: none has
  /// yet.
  int sender_on(int channel);

  /// For a process that was forked off: its copies of the connections would keep them open after
  /// this rank's death. Nothing else may be called there.
  void close_in_child();

 private:
  struct Header {
    uint64_t bytes;
    int32_t channel;
    uint32_t magic;
  };
  struct Outgoing {
    Header header;
    std::span<const std::byte> bytes;
    size_t sent;  // header included
    uint64_t number;
  };
  /// A message that arrives: into the memory of a receive, or into memory of its own.
  struct Incoming {
    std::vector<std::byte> own;
    std::span<std::byte> into;
    size_t size = 0;
    size_t got = 0;
    uint64_t number = Transfer::kDone;  // of the receive
    bool complete() const { return got == size; }
  };
  /// Messages of one channel of one peer that met no receive, and receives that met no message.
  struct Mailbox {
    std::list<Incoming> arrived;  // the last one may still be arriving
    std::list<std::pair<uint64_t, std::span<std::byte>>> awaited;
    bool empty() const { return arrived.empty() && awaited.empty(); }
  };
  struct Peer {
    FileDescriptor socket;
    std::string node;
    bool ended = false;
    std::deque<Outgoing> out;
    std::map<int, Mailbox> mailboxes;  // by channel
    Header header{};
    size_t header_got = 0;
    Incoming* arriving = nullptr;  // in `direct`, or in a mailbox
    Incoming direct;
  };
  struct State {
    bool done = false;
    size_t mismatch = SIZE_MAX;  // the size that arrived instead
  };
  void connect_all(const Listener& listener, const std::string& own_token,
                   const std::vector<Endpoint>& endpoints);
  void connect(int peer, const Endpoint& endpoint, std::chrono::steady_clock::time_point deadline);
  bool accept(const Listener& listener, const std::string& own_token,
              std::chrono::steady_clock::time_point deadline);
  void share_out_nodes(const std::vector<std::string>& memories);
  void move();
  void flush(Peer& peer);
  void read(Peer& peer);
  bool begin_message(Peer& peer);
  void end_message(Peer& peer);
  static void drop_if_empty(Peer& peer, int channel);
  void finish(uint64_t number, std::span<std::byte> into, Incoming& message);
  uint64_t new_number();
  [[noreturn]] void throw_ended(int peer) const;

  int rank_;
  std::chrono::milliseconds timeout_;
  std::vector<int> nodes_, node_ranks_;
  int node_rank_ = 0;
  std::mutex mutex_;         // guards what follows
  std::vector<Peer> peers_;  // by rank; this rank's has no socket
  std::vector<State> states_;
  std::vector<uint64_t> free_numbers_;
  std::deque<DescriptorMemory> memories_;
};

}  // namespace dlflow::runtime
