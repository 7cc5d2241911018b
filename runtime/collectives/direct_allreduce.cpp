#include "runtime/collectives/direct_allreduce.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "runtime/collectives/vector_ops.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kPieceBytes = 256 << 10;

/// One rank's side. A rank's share is reduced piece by piece, so that a piece stays in the cache.
class Direct {
 public:
  Direct(const Link& link, const DirectSum& sum)
      : link_(link),
        sum_(sum),
        piece_elements_(kPieceBytes / size_of(sum.result.type)),
        first_part_(1, 0),
        wire_(sum.wire) {
    DLFLOW_CHECK(order().num_parts.size() == size_t(link.size()));
    DLFLOW_CHECK(order().num_parts[size_t(link.rank())] == sum.parts.size());
    for (const size_t parts : order().num_parts) first_part_.push_back(first_part_.back() + parts);
    // Uses the largest share, so that all ranks count the same number of pieces.
    const size_t share = (sum.result.count + size_t(link.size()) - 1) / size_t(link.size());
    num_pieces_ = (share + piece_elements_ - 1) / piece_elements_;
    parts_ = std::make_unique_for_overwrite<std::byte[]>(
        first_part_.back() * std::min(share, piece_elements_) * size_of(sum.result.type));
  }

  size_t num_pieces() const { return num_pieces_; }

  /// Receives the others' values of this rank's piece into parts_, and sends them theirs.
  Messages collect(size_t index) {
    Messages messages = link_.messages();
    for (int distance = 1; distance < link_.size(); ++distance) {
      const int to = link_.neighbour(distance), from = link_.neighbour(-distance);
      const size_t received = order().num_parts[size_t(from)];
      for (size_t i = 0; i < received; ++i) {
        link_.receive(messages, wire_.room_for(others_part(from, i, index)).bytes(), from);
      }
      for (const Values& part : sum_.parts) {
        link_.send(messages, wire_.packed(piece_of(part, to, index)).bytes(), to);
      }
    }
    return messages;
  }

  void add_up(size_t index) {
    wire_.unpack();
    const Values result = piece_of(sum_.result, link_.rank(), index);
    std::vector<Values> parts;
    for (int rank = 0; rank < link_.size(); ++rank) {
      for (size_t i = 0; i < order().num_parts[size_t(rank)]; ++i) {
        parts.push_back(rank == link_.rank() ? piece_of(sum_.parts[i], rank, index)
                                             : others_part(rank, i, index));
      }
    }
    sum_parts(parts, order().additions, {&result, 1}, 0, result.count);
  }

  Messages distribute(size_t index) {
    Messages messages = link_.messages();
    const Values mine = piece_of(sum_.result, link_.rank(), index);
    const Values sent = wire_.packed(mine);
    if (sent.data != mine.data) convert(mine, sent);  // the owner keeps what the others get
    for (int distance = 1; distance < link_.size(); ++distance) {
      const int to = link_.neighbour(distance), from = link_.neighbour(-distance);
      const Values theirs = piece_of(sum_.result, from, index);
      link_.receive(messages, wire_.room_for(theirs).bytes(), from);
      link_.send(messages, sent.bytes(), to);
    }
    return messages;
  }

  void receive_sums() { wire_.unpack(); }

 private:
  const SumOrder& order() const { return *sum_.order; }

  /// Piece `index` of rank `rank`'s share of `values`; may be empty.
  Values piece_of(const Values& values, int rank, size_t index) const {
    const Values share = values.share(rank, link_.size());
    const size_t first = std::min(index * piece_elements_, share.count);
    return share.subrange(first, std::min(share.count - first, piece_elements_));
  }

  Values others_part(int rank, size_t i, size_t index) const {
    const Values mine = piece_of(sum_.result, link_.rank(), index);
    const size_t before = first_part_[size_t(rank)] + i;
    return {parts_.get() + before * mine.bytes().size(), mine.count, mine.type};
  }

  const Link& link_;
  const DirectSum& sum_;
  size_t piece_elements_;
  std::vector<size_t> first_part_;  // of each rank, among all parts; last, the total
  size_t num_pieces_;
  std::unique_ptr<std::byte[]> parts_;  // one piece of every part of all ranks
  WireBuffer wire_;
};

}  // namespace

Values WireBuffer::copy_of_size(size_t count) {
  copies_.push_back(std::make_unique_for_overwrite<std::byte[]>(count * size_of(wire_)));
  return {copies_.back().get(), count, wire_};
}

Values WireBuffer::packed(const Values& values) {
  if (values.type == wire_) return values;
  const Values rounded = copy_of_size(values.count);
  convert(rounded, values);
  return rounded;
}

Values WireBuffer::room_for(const Values& values) {
  if (values.type == wire_) return values;
  arrivals_.push_back({values, copy_of_size(values.count)});
  return arrivals_.back().rounded;
}

void WireBuffer::unpack() {
  for (const Arrival& arrival : arrivals_) convert(arrival.values, arrival.rounded);
  arrivals_.clear();
  copies_.clear();
}

Task direct_allreduce(Link link, DirectSum sum) {
  Direct direct(link, sum);
  for (size_t piece = 0; piece < direct.num_pieces(); ++piece) {
    Messages collected = direct.collect(piece);
    co_await collected;
    direct.add_up(piece);
    Messages distributed = direct.distribute(piece);
    co_await distributed;
    direct.receive_sums();
  }
}

}  // namespace dlflow::runtime
