#include "runtime/collectives/direct_allreduce.h"

#include <algorithm>
#include <utility>

#include "base/aligned_floats.h"
#include "base/error.h"
#include "runtime/collectives/vector_ops.h"
#include "runtime/collectives/wire_buffer.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kPieceElements = (256 << 10) / sizeof(float);

/// One rank's side. A rank's share is reduced piece by piece, so that a piece stays in the cache.
class Direct {
 public:
  Direct(const Link& link, const DirectSum& sum)
      : link_(link), sum_(sum), first_part_(1, 0), wire_(sum.wire) {
    DLFLOW_CHECK(order().num_parts.size() == size_t(link.size()));
    DLFLOW_CHECK(order().num_parts[size_t(link.rank())] == sum.parts.size());
    for (const size_t parts : order().num_parts) first_part_.push_back(first_part_.back() + parts);
    // By the largest share: all ranks count the same number of pieces.
    const size_t share = (sum.result.size() + size_t(link.size()) - 1) / size_t(link.size());
    num_pieces_ = (share + kPieceElements - 1) / kPieceElements;
    parts_ = make_aligned_floats(first_part_.back() * whole_lines(std::min(share, kPieceElements)));
  }

  size_t num_pieces() const { return num_pieces_; }

  /// What the others hold of this rank's piece comes to parts_, and theirs goes to them.
  Messages collect(size_t index) {
    Messages messages = link_.messages();
    for (int distance = 1; distance < link_.size(); ++distance) {
      const int to = link_.neighbour(distance), from = link_.neighbour(-distance);
      const size_t received = order().num_parts[size_t(from)];
      for (size_t i = 0; i < received; ++i) {
        link_.receive(messages, wire_.room_for(others_part(from, i, index)).bytes(), from);
      }
      for (const std::span<float> part : sum_.parts) {
        link_.send(messages, wire_.packed(piece_of(part, to, index)).bytes(), to);
      }
    }
    return messages;
  }

  void add_up(size_t index) {
    wire_.unpack();
    const std::span<float> result = piece_of(sum_.result, link_.rank(), index);
    std::vector<const float*> parts;
    for (int rank = 0; rank < link_.size(); ++rank) {
      for (size_t i = 0; i < order().num_parts[size_t(rank)]; ++i) {
        parts.push_back(rank == link_.rank() ? piece_of(sum_.parts[i], rank, index).data()
                                             : others_part(rank, i, index).data());
      }
    }
    float* const sum = result.data();
    sum_parts(parts, order().additions, {&sum, 1}, 0, result.size());
  }

  Messages distribute(size_t index) {
    Messages messages = link_.messages();
    const std::span<float> mine = piece_of(sum_.result, link_.rank(), index);
    const Values sent = wire_.packed(mine);
    convert(mine, sent);  // the owner keeps what the others get
    for (int distance = 1; distance < link_.size(); ++distance) {
      const int to = link_.neighbour(distance), from = link_.neighbour(-distance);
      const std::span<float> theirs = piece_of(sum_.result, from, index);
      link_.receive(messages, wire_.room_for(theirs).bytes(), from);
      link_.send(messages, sent.bytes(), to);
    }
    return messages;
  }

  void receive_sums() { wire_.unpack(); }

 private:
  const SumOrder& order() const { return *sum_.order; }

  /// Piece `index` of rank `rank`'s share of `values`; may be empty.
  std::span<float> piece_of(std::span<float> values, int rank, size_t index) const {
    const size_t ranks = size_t(link_.size());
    const size_t begin = values.size() * size_t(rank) / ranks;
    const size_t end = values.size() * (size_t(rank) + 1) / ranks;
    const size_t first = std::min(begin + index * kPieceElements, end);
    return values.subspan(first, std::min(end - first, kPieceElements));
  }

  std::span<float> others_part(int rank, size_t i, size_t index) const {
    const size_t count = piece_of(sum_.result, link_.rank(), index).size();
    return {parts_.get() + (first_part_[size_t(rank)] + i) * count, count};
  }

  const Link& link_;
  const DirectSum& sum_;
  std::vector<size_t> first_part_;  // of each rank, counted over all; and the number of all
  size_t num_pieces_;
  AlignedFloats parts_;  // a piece of each part of all ranks
  WireBuffer wire_;
};

}  // namespace

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
