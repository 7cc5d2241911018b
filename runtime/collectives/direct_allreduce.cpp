#include "runtime/collectives/direct_allreduce.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/collectives/vector_ops.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kPieceElements = (256 << 10) / sizeof(float);

}  // namespace

DirectAllreduce::DirectAllreduce(Communicator& comm, size_t num_elements, SumOrder order)
    : comm_(comm),
      num_elements_(num_elements),
      stride_(whole_lines(num_elements)),
      order_(std::move(order)),
      first_part_(1, 0) {
  DLFLOW_CHECK(order_.num_parts.size() == size_t(comm.size()));
  for (const size_t parts : order_.num_parts) first_part_.push_back(first_part_.back() + parts);
  const size_t own = order_.num_parts[size_t(comm.rank())];
  values_ = make_aligned_floats(std::max<size_t>(1, own) * stride_);
  const size_t share = num_elements / size_t(comm.size()) + 1;
  scratch_ = make_aligned_floats(first_part_.back() * whole_lines(std::min(share, kPieceElements)));
}

std::span<float> DirectAllreduce::part(size_t index) {
  return {values_.get() + index * stride_, num_elements_};
}

DirectAllreduce::Range DirectAllreduce::piece(const Range& all, int rank, size_t index) const {
  const size_t ranks = size_t(comm_.size());
  const size_t begin = all.count * size_t(rank) / ranks;
  const size_t end = all.count * (size_t(rank) + 1) / ranks;
  const size_t first = std::min(begin + index * kPieceElements, end);
  return {all.first + first, std::min(end - first, kPieceElements)};
}

void DirectAllreduce::start(size_t first, size_t count) {
  const Range all = {first, count};
  // By the largest share, since all ranks must count the same number of messages.
  const size_t largest = (count + size_t(comm_.size()) - 1) / size_t(comm_.size());
  for (size_t index = 0; index * kPieceElements < largest; ++index) {
    collect(all, index);
    add_up(piece(all, comm_.rank(), index));
    distribute(all, index);
  }
}

/// What the others hold of this rank's piece comes to scratch_, and theirs goes to them.
void DirectAllreduce::collect(const Range& all, size_t index) {
  const int rank = comm_.rank(), ranks = comm_.size();
  const Range mine = piece(all, rank, index);
  for (int distance = 1; distance < ranks; ++distance) {
    const int to = (rank + distance) % ranks, from = (rank + ranks - distance) % ranks;
    const Range theirs = piece(all, to, index);
    const size_t sent = order_.num_parts[size_t(rank)], received = order_.num_parts[size_t(from)];
    for (size_t i = 0; i < std::max(sent, received); ++i) {
      const auto out = i < sent ? part(i).subspan(theirs.first, theirs.count) : std::span<float>();
      float* const place = scratch_.get() + (first_part_[size_t(from)] + i) * mine.count;
      const auto in = i < received ? std::span(place, mine.count) : std::span<float>();
      if (i >= received) {
        comm_.send(std::as_bytes(out), to);
      } else if (i >= sent) {
        comm_.receive(std::as_writable_bytes(in), from);
      } else {
        comm_.send_receive(std::as_bytes(out), to, std::as_writable_bytes(in), from);
      }
    }
  }
}

void DirectAllreduce::add_up(const Range& mine) {
  std::vector<const float*> parts;
  for (size_t i = 0; i < first_part_.back(); ++i) parts.push_back(scratch_.get() + i * mine.count);
  const size_t rank = size_t(comm_.rank());
  for (size_t i = 0; i < order_.num_parts[rank]; ++i) {
    parts[first_part_[rank] + i] = part(i).data() + mine.first;
  }
  float* const result = values().data() + mine.first;
  sum_parts(parts, order_.additions, {&result, 1}, 0, mine.count);
}

void DirectAllreduce::distribute(const Range& all, size_t index) {
  const int rank = comm_.rank(), ranks = comm_.size();
  const Range mine = piece(all, rank, index);
  for (int distance = 1; distance < ranks; ++distance) {
    const int to = (rank + distance) % ranks, from = (rank + ranks - distance) % ranks;
    const Range theirs = piece(all, from, index);
    comm_.send_receive(std::as_bytes(values().subspan(mine.first, mine.count)), to,
                       std::as_writable_bytes(values().subspan(theirs.first, theirs.count)), from);
  }
}

}  // namespace dlflow::runtime
