#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/collectives/task.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// Bytes that a rank offers to the others, in the order of `blocks`, and the part of them that each
/// rank takes.
struct Offer {
  struct Part {
    uint64_t offset = 0, size = 0;
  };
  std::vector<std::span<const std::byte>> blocks;
  std::vector<Part> parts;  // by rank

  /// All of `bytes` to every rank.
  static Offer to_all(std::span<const std::byte> bytes, int num_ranks);

  /// Block r of `bytes`, of sizes[r], to rank r: the next of `rank` first, so that all ranks have
  /// something to take at once.
  static Offer to_each(std::span<const std::byte> bytes, std::span<const size_t> sizes, int rank);
};

/// Blocks of any sizes between the ranks of one node through memory that they share: a sender
/// copies into it, receivers copy out of it, piece by piece, so that both happen in the cache.
///
/// Each rank has 1 MiB, a ring: it says how much of its offer lies there, and each receiver says
/// how much it needs no more. Positions and the number of the exchange are one word, so that what a
/// rank says in one exchange is never taken for another's.
class NodeExchange {
 public:
  /// Collective over `comm`, whose ranks are all on one node.
  explicit NodeExchange(Communicator& comm);

  /// Collective: received[r] gets what rank r offers this one; that of this rank stays as it is.
  /// Begins with the first poll, one after the other. Ranks that come to other calls
  /// (ChannelSpace) wait for ever; a part of another size is Error{InvalidInput}.
  Task exchange(Offer offer, std::vector<std::span<std::byte>> received);

  /// As if there had been `number` exchanges: for tests of what comes after many. Before the first,
  /// on all ranks; a barrier follows.
  void count_from(uint64_t number);

 private:
  struct Header;
  class UnderWay;

  Header& header(int rank) const;
  Offer::Part* parts(int rank) const;
  std::byte* ring(int rank) const;

  Communicator* comm_;
  uint64_t number_ = 0;  // of the last exchange
  std::vector<std::byte*> memory_;
};

}  // namespace dlflow::runtime
