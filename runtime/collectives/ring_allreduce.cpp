#include "runtime/collectives/ring_allreduce.h"

#include <algorithm>
#include <memory>

#include "runtime/collectives/vector_ops.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kMessageElements = (256 << 10) / sizeof(float);

/// The values in P parts, the neighbours, and the one step both phases repeat.
class Ring {
 public:
  Ring(Communicator& comm, std::span<float> values)
      : comm_(comm),
        values_(values),
        next_((comm.rank() + 1) % comm.size()),
        previous_((comm.rank() + comm.size() - 1) % comm.size()) {}

  size_t largest_part() const { return (values_.size() + comm_.size() - 1) / comm_.size(); }

  /// Part `index`, counted modulo P.
  std::span<float> part(int index) const {
    const size_t ranks = comm_.size();
    const size_t i = (index % comm_.size() + comm_.size()) % comm_.size();
    const size_t first = values_.size() * i / ranks;
    return values_.subspan(first, values_.size() * (i + 1) / ranks - first);
  }

  /// Sends part `sent` to the next rank while part `received` comes from the previous one, message
  /// by message: `receive_into(piece)` says where a piece of it goes, `done(piece)` has it.
  template <typename ReceiveInto, typename Done>
  void exchange(std::span<float> sent, std::span<float> received, ReceiveInto receive_into,
                Done done) {
    // By the largest part, since all ranks must count the same number of messages.
    for (size_t left = largest_part(); left > 0; left -= std::min(left, kMessageElements)) {
      const auto out = sent.first(std::min(sent.size(), kMessageElements));
      const auto piece = received.first(std::min(received.size(), kMessageElements));
      comm_.send_receive(std::as_bytes(out), next_, std::as_writable_bytes(receive_into(piece)),
                         previous_);
      done(piece);
      sent = sent.subspan(out.size());
      received = received.subspan(piece.size());
    }
  }

 private:
  Communicator& comm_;
  std::span<float> values_;
  int next_, previous_;
};

}  // namespace

void ring_allreduce(Communicator& comm, std::span<float> values) {
  const int rank = comm.rank(), ranks = comm.size();
  Ring ring(comm, values);
  const size_t scratch_elements = std::min(ring.largest_part(), kMessageElements);
  const auto scratch = std::make_unique_for_overwrite<float[]>(scratch_elements);

  // Reduce-scatter: in round k a rank adds its values to the partial sum of part rank-1-k, which it
  // passes on in the next round; after P-1 rounds it has the whole sum of part rank+1.
  for (int round = 0; round < ranks - 1; ++round) {
    ring.exchange(
        ring.part(rank - round), ring.part(rank - round - 1),
        [&](std::span<float> piece) { return std::span(scratch.get(), piece.size()); },
        [&](std::span<float> piece) {
          add(piece, {scratch.get(), piece.size()});
        });
  }

  // All-gather: the finished parts go once round.
  for (int round = 0; round < ranks - 1; ++round) {
    ring.exchange(
        ring.part(rank + 1 - round), ring.part(rank - round),
        [](std::span<float> piece) { return piece; }, [](std::span<float>) {});
  }
}

}  // namespace dlflow::runtime
