#include "runtime/collectives/link.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace dlflow::runtime {

Progress Messages::poll() {
  const size_t before = ended_;
  while (ended_ < transfers_.size() && comm_->done(transfers_[ended_])) ++ended_;
  if (ended_ == transfers_.size()) return Progress::Done;
  return ended_ > before ? Progress::Some : Progress::None;
}

Link::Link(Communicator& comm)
    : comm_(&comm), channel_(comm.open_channel()), rank_(comm.rank()), size_(comm.size()) {}

Link::Link(Communicator& comm, std::vector<int> ranks, int channel)
    : comm_(&comm), ranks_(std::move(ranks)), channel_(channel), size_(int(ranks_.size())) {
  const auto self = std::ranges::find(ranks_, comm.rank());
  DLFLOW_CHECK(self != ranks_.end());
  rank_ = int(self - ranks_.begin());
}

Messages Link::exchange(std::span<const std::byte> sent, int to, std::span<std::byte> received,
                        int from) const {
  Messages both = messages();
  receive(both, received, from);
  send(both, sent, to);
  return both;
}

Messages Link::send(std::span<const std::byte> bytes, int to) const {
  Messages one = messages();
  send(one, bytes, to);
  return one;
}

Messages Link::receive(std::span<std::byte> bytes, int from) const {
  Messages one = messages();
  receive(one, bytes, from);
  return one;
}

}  // namespace dlflow::runtime
