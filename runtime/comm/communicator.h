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
/// that did not answer. The communicator is then unusable.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::chrono::seconds timeout() const = 0;

  /// Sends and receives at once (neither waits for the other to begin); spans may be of different
  /// sizes, but what one rank sends the other receives. Ranks may be this rank itself.
  virtual void send_receive(std::span<const std::byte> send, int to, std::span<std::byte> receive,
                            int from) = 0;
  virtual void send(std::span<const std::byte> bytes, int to) = 0;
  virtual void receive(std::span<std::byte> bytes, int from) = 0;

  virtual void barrier() = 0;

  /// Copies `bytes` of rank `root` to every rank. Collective.
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;

  /// The ranks that share memory with this one: their number, and this rank's place among them.
  virtual int node_size() const = 0;
  virtual int node_rank() const = 0;

  /// Memory of `bytes` per rank of this node, 64-byte aligned and zeroed: [i] is what node rank i
  /// allocated, readable and writable by all. Collective over the node; lives as long as this
  /// object.
  virtual std::span<std::byte* const> allocate_shared(size_t bytes) = 0;
};

}  // namespace dlflow::runtime
