#pragma once

#include <chrono>
#include <cstddef>
#include <span>

/// How ranks talk: point-to-point messages, a barrier, and memory that the ranks of a node share.
/// P is size(). Collectives (runtime/collectives) are built on this and nothing else.
namespace dlflow::runtime {

/// One rank's end of a group of P ranks. Implementations repeat this shape: MpiCommunicator,
/// ThreadCommunicator (ranks are threads of one process; for tests). One thread per rank calls it.
///
/// Every call that waits for a peer gives up after timeout(): Error{Unavailable} naming the rank
/// that was waited for. A message of another size than the receiver expects is Error{InvalidInput}:
/// the ranks disagree about what they do. After an Error the communicator is unusable.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::chrono::milliseconds timeout() const = 0;

  /// Sends and receives at once (neither waits for the other to begin); spans may be of different
  /// sizes, but what one rank sends the other receives. Ranks may be this rank itself.
  virtual void send_receive(std::span<const std::byte> send, int to, std::span<std::byte> receive,
                            int from) = 0;
  virtual void send(std::span<const std::byte> bytes, int to) = 0;
  virtual void receive(std::span<std::byte> bytes, int from) = 0;

  /// Returns once every rank has called it; lg P messages. A rank that is missing is named by the
  /// ranks that wait for it directly; others name the rank that waits in its turn.
  /// Source: Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization",
  /// Int. J. Parallel Programming 17 (1988).
  void barrier();

  /// Copies `bytes` of rank `root` to every rank, along a binomial tree. Collective.
  void broadcast(std::span<std::byte> bytes, int root);

  /// The ranks that share memory with this one: their number, and this rank's place among them.
  virtual int node_size() const = 0;
  virtual int node_rank() const = 0;

  /// Memory of `bytes` per rank of this node, 64-byte aligned and zeroed: [i] is what node rank i
  /// allocated, readable and writable by all. Collective over the node; lives as long as this
  /// object.
  virtual std::span<std::byte* const> allocate_shared(size_t bytes) = 0;
};

}  // namespace dlflow::runtime
