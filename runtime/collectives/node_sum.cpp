#include "runtime/collectives/node_sum.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "runtime/collectives/vector_ops.h"

namespace dlflow::runtime {
namespace {

/// A piece that is offered and added at a time stays in a second-level cache.
constexpr size_t kNodePieceBytes = 256 << 10;

/// The number of pieces that the memory holds: one being offered, one being added up and one being
/// taken need three. It is a power of two, as piece numbers wrap around.
constexpr size_t kPlaces = 4;

/// The parts of each rank in NodeMemory: numbers that others add, and sums that it has added up.
constexpr size_t kOffered = 0, kAdded = 1, kParts = 2;

}  // namespace

NodeSum::NodeSum(Communicator& comm, DataType type)
    : comm_(comm),
      piece_(kNodePieceBytes / size_of(type)),
      order_(sum_in_rank_order(comm.size())),
      memory_(comm, kPlaces * piece_, type, std::vector<size_t>(size_t(comm.node_size()), kParts)) {
  DLFLOW_CHECK(comm.node_size() == comm.size());
}

/// A sum, piece by piece. A rank offers piece n + 2 before it adds up n + 1 and takes n, so that it
/// seldom waits for a peer that is a little late.
///
/// These few places are enough. An offer is read until all ranks have added it up, and this rank
/// has seen that when it took the piece. A sum is read until all ranks have taken it; each rank
/// then began the later piece that this rank waits for before it writes its next sum there. Offered
/// and added numbers have separate parts, since the shares of another sum may have other bounds.
class NodeSum::UnderWay {
 public:
  UnderWay(NodeSum& all, const Values& input, const Values& output)
      : memory_(all.memory_),
        order_(all.order_),
        piece_(all.piece_),
        first_number_(all.number_ + 1),
        call_(all.comm_.space().call),
        input_(input),
        output_(output) {
    all.number_ += uint32_t(num_pieces());
  }

  size_t num_pieces() const { return (input_.count + piece_ - 1) / piece_; }

  void offer(size_t piece) {
    for (int rank = 0; rank < memory_.size(); ++rank) {
      if (rank != memory_.rank()) {
        convert(shared(kOffered, memory_.rank(), rank, piece), share_of(input_, rank, piece));
      }
    }
    memory_.announce(NodeMemory::Stage::Started, range_of(piece));
  }
  NodeMemory::Announced all_offered(size_t piece) const {
    return memory_.all_started(range_of(piece));
  }

  void add_up(size_t piece, int divisor) {
    const int own = memory_.rank();
    const Values added = shared(kAdded, own, own, piece);
    const Values result = output_.data == nullptr ? added : share_of(output_, own, piece);
    parts_.clear();
    for (int rank = 0; rank < memory_.size(); ++rank) {
      parts_.push_back(rank == own ? share_of(input_, own, piece)
                                   : shared(kOffered, rank, own, piece));
    }
    sum_parts(parts_, order_.additions, {&result, 1}, 0, result.count);
    if (divisor != 1) divide(result, divisor);
    if (output_.data != nullptr) convert(added, result);
    memory_.announce(NodeMemory::Stage::Reduced, range_of(piece));
  }
  NodeMemory::Announced all_added(size_t piece) const {
    return memory_.all_reduced(range_of(piece), memory_.size());
  }

  void take(size_t piece) {
    if (output_.data == nullptr) return;
    for (int rank = 0; rank < memory_.size(); ++rank) {
      if (rank != memory_.rank()) {
        convert(share_of(output_, rank, piece), shared(kAdded, rank, rank, piece));
      }
    }
  }

 private:
  size_t count_of(size_t piece) const { return std::min(piece_, input_.count - piece * piece_); }

  /// The place of a piece in the memory.
  Range range_of(size_t piece) const {
    const uint32_t number = first_number_ + uint32_t(piece);
    return {number % kPlaces * piece_, count_of(piece), number, call_};
  }

  /// The share of the piece that `rank` adds up.
  Range share(int rank, size_t piece) const {
    return memory_.share(range_of(piece), rank, memory_.size());
  }
  Values share_of(const Values& values, int rank, size_t piece) const {
    const Range its = share(rank, piece);
    const size_t in_piece = its.first - range_of(piece).first;
    return values.subrange(piece * piece_ + in_piece, its.count);
  }
  /// The same share, in `part` of the memory of rank `owner`.
  Values shared(size_t part, int owner, int rank, size_t piece) const {
    const Range its = share(rank, piece);
    return memory_.parts()[size_t(owner) * kParts + part].subrange(its.first, its.count);
  }

  NodeMemory& memory_;
  const SumOrder& order_;
  size_t piece_;
  uint32_t first_number_, call_;
  Values input_, output_;
  std::vector<Values> parts_;  // used by add_up(); reused for all pieces
};

Task NodeSum::sum(Values input, Values output, int divisor) {
  DLFLOW_CHECK(output.data == nullptr || output.count == input.count);
  UnderWay sum(*this, input, output);
  const size_t pieces = sum.num_pieces();
  for (size_t step = 0; step < pieces + 2; ++step) {
    if (step < pieces) sum.offer(step);
    if (step >= 1 && step - 1 < pieces) {
      NodeMemory::Announced offered = sum.all_offered(step - 1);
      co_await offered;
      sum.add_up(step - 1, divisor);
    }
    if (step >= 2) {
      NodeMemory::Announced added = sum.all_added(step - 2);
      co_await added;
      sum.take(step - 2);
    }
    Pause pause;
    co_await pause;
  }
}

}  // namespace dlflow::runtime
