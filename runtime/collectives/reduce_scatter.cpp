#include "runtime/collectives/reduce_scatter.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "runtime/collectives/vector_ops.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kExchangePieceBytes = 256 << 10;
constexpr size_t kPiecesUnderWay = 8;  // so that two peers that share a core switch less often

/// Both directions, divided into pieces.
class Exchange {
 public:
  Exchange(const Link& link, Values sent, int to, Values into, int from)
      : link_(link),
        sent_(sent),
        into_(into),
        to_(to),
        from_(from),
        elements_(kExchangePieceBytes / size_of(into.type)),
        scratch_(std::make_unique_for_overwrite<std::byte[]>(
            std::min(kPiecesUnderWay * kExchangePieceBytes, into.bytes().size()))) {}

  size_t num_pieces() const {
    return (std::max(sent_.count, into_.count) + elements_ - 1) / elements_;
  }

  /// Starts piece `index`; does nothing if there is no such piece.
  Messages start(size_t index) const {
    Messages messages = link_.messages();
    const Values in = received(index), out = piece(sent_, index);
    if (in.count > 0) link_.receive(messages, in.bytes(), from_);
    if (out.count > 0) link_.send(messages, out.bytes(), to_);
    return messages;
  }

  void add_up(size_t index) const { add(piece(into_, index), received(index)); }

 private:
  Values piece(const Values& values, size_t index) const {
    const size_t first = std::min(index * elements_, values.count);
    return values.subrange(first, std::min(elements_, values.count - first));
  }
  Values received(size_t index) const {
    return {scratch_.get() + index % kPiecesUnderWay * kExchangePieceBytes,
            piece(into_, index).count, into_.type};
  }

  const Link& link_;
  Values sent_, into_;
  int to_, from_;
  size_t elements_;
  std::unique_ptr<std::byte[]> scratch_;
};

}  // namespace

Task exchange_and_add(const Link& link, Values sent, int to, Values into, int from) {
  const Exchange exchange(link, sent, to, into, from);
  std::array<std::optional<Messages>, kPiecesUnderWay> under_way;
  size_t started = 0;
  for (size_t piece = 0; piece < exchange.num_pieces(); ++piece) {
    for (; started < std::min(piece + kPiecesUnderWay, exchange.num_pieces()); ++started) {
      under_way[started % kPiecesUnderWay].emplace(exchange.start(started));
    }
    co_await *under_way[piece % kPiecesUnderWay];
    exchange.add_up(piece);
  }
}

Task reduce_scatter(Link link, Values values) {
  const int ranks = link.size(), next = link.neighbour(1), previous = link.neighbour(-1);
  // In round k a rank adds its values to the partial sum of share rank-1-k, which it passes on in
  // the next round.
  for (int round = 1; round < ranks; ++round) {
    const Values sent = values.share(link.neighbour(-round), ranks);
    const Values received = values.share(link.neighbour(-round - 1), ranks);
    co_await exchange_and_add(link, sent, next, received, previous);
  }
}

}  // namespace dlflow::runtime
