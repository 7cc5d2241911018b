#include "runtime/collectives/reduce_scatter.h"

#include <algorithm>
#include <memory>

#include "runtime/collectives/vector_ops.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kPieceBytes = 256 << 10;

/// One round: share `sent` goes to the next rank while `received` comes from the previous one and
/// is added, piece by piece.
class Round {
 public:
  Round(const Link& link, Values sent, Values received, std::byte* scratch)
      : link_(link),
        sent_(sent),
        received_(received),
        scratch_(scratch),
        elements_(kPieceBytes / size_of(sent.type)) {}

  size_t num_pieces() const {
    return (std::max(sent_.count, received_.count) + elements_ - 1) / elements_;
  }

  /// Piece `index` under way; nothing if there is no such piece.
  Messages start(size_t index) const {
    Messages messages = link_.messages();
    const Values in = piece(received_, index), out = piece(sent_, index);
    if (in.count > 0) link_.receive(messages, scratch(index).bytes(), link_.neighbour(-1));
    if (out.count > 0) link_.send(messages, out.bytes(), link_.neighbour(1));
    return messages;
  }

  void add_up(size_t index) const { add(piece(received_, index), scratch(index)); }

 private:
  Values piece(const Values& share, size_t index) const {
    const size_t first = std::min(index * elements_, share.count);
    return share.subrange(first, std::min(elements_, share.count - first));
  }
  Values scratch(size_t index) const {
    return {scratch_ + index % 2 * kPieceBytes, piece(received_, index).count, received_.type};
  }

  const Link& link_;
  Values sent_, received_;
  std::byte* scratch_;
  size_t elements_;
};

}  // namespace

Task reduce_scatter(Link link, Values values) {
  const int rank = link.rank(), ranks = link.size();
  const auto scratch = std::make_unique_for_overwrite<std::byte[]>(
      2 * std::min(kPieceBytes, values.share(ranks - 1, ranks).bytes().size()));
  for (int round = 1; round < ranks; ++round) {
    const int sent = (rank - round + ranks) % ranks, received = (sent - 1 + ranks) % ranks;
    const Round shares(link, values.share(sent, ranks), values.share(received, ranks),
                       scratch.get());
    Messages next = shares.start(0);
    for (size_t piece = 0; piece < shares.num_pieces(); ++piece) {
      Messages current = std::move(next);
      next = shares.start(piece + 1);
      co_await current;
      shares.add_up(piece);
    }
  }
}

}  // namespace dlflow::runtime
