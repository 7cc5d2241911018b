#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
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

/// An address where other ranks can find this one: open it, distribute its text to all ranks by any
/// means, then make a SocketCommunicator of it.
class SocketEndpoint {
 public:
  /// Ranks with the same text `memory` share memory; if empty, ranks of one user on one machine and
  /// in one network namespace do. Throws Error if no port can be opened.
  explicit SocketEndpoint(const std::string& memory = "");

  /// One line for the other ranks; any process that has it may join.
  std::string text() const;

 private:
  friend class SocketCommunicator;

  Listener listener_;
  Endpoint endpoint_;
  std::string memory_;
};

/// A communicator over TCP connections, between processes that already have each other's endpoints:
/// it needs no MPI and no launcher. Ranks of one machine share memory by memfd, which vanishes even
/// after a kill.
///
/// Two ranks connect when the first of them sends to the other: with P ranks, collectives with lg P
/// peers need lg P connections. Each end sends by the first connection that it has. If both ends
/// open one at the same time, each sends by its own, and both read from both. A rank that waits for
/// a peer without a connection opens one after a while, because a refused or closed connection
/// shows that the peer is gone. Connections are accepted, and messages move, while a rank polls
/// done().
///
/// A message without a receive is kept in memory.
class SocketCommunicator final : public Communicator {
 public:
  /// Collective over the ranks with these `endpoints`, in the order of ranks, including `own`;
  /// takes the lg P rounds of a barrier. Throws Error{Unavailable} naming the rank that did not
  /// come within `timeout`.
  SocketCommunicator(SocketEndpoint own, int rank, const std::vector<std::string>& endpoints,
                     std::chrono::milliseconds timeout);

  int rank() const override { return rank_; }
  int size() const override { return int(peers_.size()); }
  std::chrono::milliseconds timeout() const override { return timeout_; }

  Transfer start_send(std::span<const std::byte> bytes, int to, int channel) override;
  Transfer start_receive(std::span<std::byte> bytes, int from, int channel) override;
  bool done(Transfer& transfer) override;
  bool sleep_until_it_moves(std::chrono::nanoseconds time) override;
  bool can_sum(DataType) const override { return false; }
  Transfer start_sum(const Values& values) override;

  std::span<const int> nodes() const override { return nodes_; }
  int node_size() const override { return int(node_ranks_.size()); }
  int node_rank() const override { return node_rank_; }
  std::span<std::byte* const> allocate_shared(size_t bytes) override;

  /// Returns a rank that has sent a message on `channel` for which no receive was started, or -1.
  int sender_on(int channel);

  /// Called in a forked child: its copies of the connections would keep them open after this rank's
  /// death. Nothing else may be called there.
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
  /// An arriving message: into the memory of a receive, or into its own buffer.
  struct Incoming {
    std::vector<std::byte> own;
    std::span<std::byte> into;
    size_t size = 0;
    size_t got = 0;
    uint64_t number = Transfer::kDone;  // of the receive
    bool complete() const { return got == size; }
  };
  /// One peer's messages of one channel that no receive has taken yet, and receives that wait.
  struct Mailbox {
    std::list<Incoming> arrived;  // the last one may still be arriving
    std::list<std::pair<uint64_t, std::span<std::byte>>> awaited;
    bool empty() const { return arrived.empty() && awaited.empty(); }
  };
  static constexpr size_t kTokenBytes = 32;
  /// The first message from a rank that connects; the answer is the magic number.
  struct Hello {
    uint32_t magic;
    int32_t rank;
    std::array<char, kTokenBytes> token;
  };
  /// A connection to a peer, and the message that is arriving by it.
  struct Link {
    FileDescriptor socket;
    size_t tried = 0;    // number of the peer's addresses, if this rank opened the link
    bool ready = false;  // the other end has proved to be the peer
    Header header{};
    size_t header_got = 0;
    Incoming* arriving = nullptr;  // points to `direct` or into a mailbox
    Incoming direct;
  };
  struct Peer {
    std::unique_ptr<Link> opened, accepted;  // by this rank; from the peer
    Link* by = nullptr;                      // the link by which this rank sends
    bool ended = false;
    bool came = false;  // a link has been ready
    std::list<Outgoing> out;
    std::map<int, Mailbox> mailboxes;  // by channel
    bool has_link() const { return opened || accepted; }
  };
  /// A connection that has not shown the token yet.
  struct Stranger {
    FileDescriptor socket;
    std::chrono::steady_clock::time_point since;
    Hello hello{};
    size_t got = 0;
  };
  struct State {
    bool done = false;
    size_t mismatch = SIZE_MAX;                     // the size that arrived instead
    std::chrono::steady_clock::time_point since{};  // when a receive started
  };
  void open_link(int rank);
  void try_next_address(int rank);
  void close(int rank, Link& link);
  bool read_answer(int rank, Link& link);
  void let_in();
  void join(Stranger& stranger);
  void share_out_nodes(const std::vector<std::string>& memories);
  using Links = std::vector<std::pair<int, Link*>>;
  void list_waiting(std::vector<pollfd>& waiting, Links& links) const;
  void move();
  void flush(Peer& peer);
  void read(int rank, Link& link);
  bool begin_message(Peer& peer, Link& link);
  void end_message(Peer& peer, Link& link);
  static void drop_if_empty(Peer& peer, int channel);
  void finish(uint64_t number, std::span<std::byte> into, Incoming& message);
  uint64_t new_number();
  Endpoint endpoint_of_rank(int rank) const;
  [[noreturn]] void throw_ended(int peer) const;

  int rank_;
  std::chrono::milliseconds timeout_;
  std::vector<int> nodes_, node_ranks_;
  int node_rank_ = 0;
  std::vector<std::string> endpoints_;  // by rank
  std::mutex mutex_;                    // guards the members below
  Listener listener_;
  std::string token_;
  std::list<Stranger> strangers_;  // the oldest first
  std::vector<Peer> peers_;        // by rank; this rank's has no link
  std::vector<int> linked_;        // ranks that have or had a link
  std::vector<State> states_;
  std::vector<uint64_t> free_numbers_;
  std::deque<DescriptorMemory> memories_;
};

}  // namespace dlflow::runtime
