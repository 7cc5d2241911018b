#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/collectives/task.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// Bytes that a rank offers to the others, in the order of `blocks`, and the range of them that
/// each rank takes.
struct Offer {
  struct ByteRange {
    uint64_t offset = 0, size = 0;
  };
  std::vector<std::span<const std::byte>> blocks;
  std::vector<ByteRange> ranges;  // by rank

  /// All of `bytes` to every rank.
  static Offer to_all(std::span<const std::byte> bytes, int num_ranks);

  /// Block r of `bytes`, of sizes[r], to rank r. The block of the rank after `rank` comes first, so
  /// that all ranks have something to take at once.
  static Offer to_each(std::span<const std::byte> bytes, std::span<const size_t> sizes, int rank);
};

/// Exchanges blocks of any sizes between the ranks of one node through shared memory: a sender
/// copies into it and receivers copy out of it, piece by piece, so that both happen in the cache.
///
/// Each rank has a ring of 1 MiB. It publishes how much of its offer it has written there, and each
/// receiver how much it no longer needs. A position and the number of its exchange share one word,
/// so that positions of different exchanges are never confused.
class NodeExchange {
 public:
  /// Collective over `comm`, whose ranks are all on one node.
  explicit NodeExchange(Communicator& comm);

  /// Collective: received[r] gets the bytes that rank r offers this one; this rank's entry is
  /// unchanged. Begins with the first poll; one exchange runs at a time. Ranks with different calls
  /// (ChannelSpace) wait for ever; a size mismatch is Error{InvalidInput}.
  Task exchange(Offer offer, std::vector<std::span<std::byte>> received);

  /// Continues as if there had been `number` exchanges, for tests of the wrap-around. Called on all
  /// ranks before the first exchange, and followed by a barrier.
  void count_from(uint64_t number);

 private:
  struct Header;
  class UnderWay;

  Header& header(int rank) const;
  Offer::ByteRange* ranges(int rank) const;
  std::byte* ring(int rank) const;

  Communicator* comm_;
  uint64_t number_ = 0;  // of the last exchange
  std::vector<std::byte*> memory_;
};

}  // namespace dlflow::runtime
