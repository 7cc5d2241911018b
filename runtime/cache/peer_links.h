#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/endpoint.h"
#include "runtime/cache/chunk_memory.h"
#include "runtime/data/chunked_dataset.h"

namespace dlflow::runtime {

/// A node of the job: where it serves what it keeps.
struct PeerNode {
  Endpoint endpoint;
  size_t kept = 0;  ///< of its chunks, the first ones
};

struct PeerLimits {
  std::chrono::milliseconds answer =
      std::chrono::seconds(10);                                ///< a peer that takes longer is slow
  std::chrono::milliseconds pause = std::chrono::seconds(60);  ///< until it is asked again
};

/// One rank's connections to the other nodes of its job, one to each. Any thread calls it.
///
/// A peer that is slow or gone is not asked for a while, and one that sends what is not the chunk
/// never again; the first such is told, once for this node. One that leaves in order is not told.
class PeerLinks {
 public:
  /// Connects to all of `nodes` but `own` that keep anything. `data` must outlive this.
  PeerLinks(const ChunkedDataset& data, const ChunkMemory& books, std::vector<PeerNode> nodes,
            size_t own, std::function<void(const std::string&)> warn,
            const PeerLimits& limits = {});

  /// Fills `to`, of the chunk's size, from the node that keeps it; proven. False: it is to be read
  /// from the source.
  bool read(uint32_t chunk, std::span<std::byte> to);

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Peer {
    PeerNode node;
    std::mutex mutex;  // guards what follows
    FileDescriptor socket;
    Time ask_from;  // not before
  };

  void connect(Peer& peer);
  static bool greet(const FileDescriptor& socket, const Endpoint& endpoint);
  bool ask(Peer& peer, uint32_t chunk, std::span<std::byte> to);
  void give_up(Peer& peer, Transferred how);
  void give_up(Peer& peer, const std::string& reason, Time until);

  const ChunkedDataset& data_;
  ChunkMemory books_;
  std::deque<Peer> peers_;  // by node
  size_t own_;
  std::function<void(const std::string&)> warn_;
  PeerLimits limits_;
};

}  // namespace dlflow::runtime
